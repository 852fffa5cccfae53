package meter_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// After a refusal by the upstream one request goes first. The transport lets the others follow
// when it has an answer that is no refusal.
func TestOneRequestGoesFirstAfterARefusal(t *testing.T) {
	arrived := make(chan chan int) // each request waits for its status
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		status := make(chan int)
		arrived <- status
		w.WriteHeader(<-status)
	}, nil)
	// send makes a request, which the upstream answers with a status.
	send := func(status int, meanwhile func()) {
		t.Helper()
		done := make(chan error, 1)
		go func() {
			got, _, err := r.do(t.Context(), "GET", items, "")
			if err == nil && got != status {
				err = errors.New(http.StatusText(got))
			}
			done <- err
		}()
		select {
		case answer := <-arrived:
			if meanwhile != nil {
				meanwhile()
			}
			answer <- status
		case err := <-done:
			t.Fatalf("a request was not sent: %v", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	refuse := func(probing bool) func() {
		return func() {
			t.Helper()
			_, _, err := r.do(t.Context(), "GET", items, "")
			if e := refused(t, err); !errors.Is(err, quota.ErrBlocked) || e.Probing != probing {
				t.Errorf("%v, want a refusal because of the first request: %t", err, probing)
			}
		}
	}
	for _, answer := range []int{http.StatusNotFound, http.StatusOK, http.StatusServiceUnavailable} {
		send(http.StatusTooManyRequests, nil)
		for range 2 { // the first request is refused again: the pool is shut, and another one goes first
			r.clock.Advance(10 * time.Second)
			send(http.StatusTooManyRequests, refuse(true))
			refuse(false)()
		}
		r.clock.Advance(10 * time.Second)
		send(answer, refuse(true)) // any answer that is no refusal
		for range 3 {
			send(http.StatusOK, func() { send(http.StatusOK, nil) })
		}
	}
}
