package meter

import (
	"sync/atomic"
	"testing"
)

// Whatever comes at once, all of it is done: by the workers, by those who wait in the queue, and beyond that by the
// caller itself. Nothing stays behind.
func TestAllThatComesAtOnceIsDone(t *testing.T) {
	var l later
	var done atomic.Int64
	hold, held := make(chan struct{}), make(chan struct{}, mostWorkers)
	for range mostWorkers {
		l.do(func() {
			held <- struct{}{}
			<-hold
			done.Add(1)
		})
	}
	for range mostWorkers {
		<-held
	}
	for range mostQueued {
		l.do(func() { done.Add(1) })
	}
	if got := done.Load(); got != 0 {
		t.Errorf("%d of those that wait are done, while all workers are busy", got)
	}
	l.do(func() { done.Add(1) }) // the queue is full
	if got := done.Load(); got != 1 {
		t.Errorf("the caller did %d", got)
	}
	close(hold)
	if err := l.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := done.Load(); got != mostWorkers+mostQueued+1 || l.busy.Load() != 0 || len(l.open) != 0 {
		t.Errorf("%d are done, %d are busy, %d are open", got, l.busy.Load(), len(l.open))
	}
}

// What waits for a settlement is done once: at its end, or at once when that has passed.
func TestWhatWaitsForASettlement(t *testing.T) {
	var s settling
	n := 0
	s.then(func() { n++ })
	if n != 0 {
		t.Error("it did not wait")
	}
	s.end()
	s.end()
	s.then(func() { n += 10 })
	if n != 11 {
		t.Errorf("%d, want 11", n)
	}
}
