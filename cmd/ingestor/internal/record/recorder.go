package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
)

// queued is how many calls may wait to be written. A call beyond them is not kept, so that no call
// waits for the disk.
const queued = 4096

// mostRate is how many calls are recorded in a second. Further ones cost nothing: a draft needs a
// few hundred calls in a row, and not all calls of a proxy at its limit.
const mostRate = 500

// longestLine is the most bytes of a line. So the end of a file has the end of a whole line.
const longestLine = 64 << 10

// Recorder writes calls to a file, a line each.
type Recorder struct {
	file    *os.File
	most    int64 // bytes
	size    int64
	cleaner *Cleaner
	clock   quota.Clock
	log     *slog.Logger
	queue   chan *Exchange
	stop    chan struct{}
	done    chan struct{}
	written int64
	lost    atomic.Int64
	second  atomic.Int64 // that counts now
	calls   atomic.Int64 // of this second
	full    sync.Once
}

// Open opens a file to append calls to, until it has so many bytes. Nobody else may read it. What
// a kill or a loss of power left of a line is cut off. Segments of paths that the price book has
// are kept. A nil clock is the machine's.
func Open(path string, most int64, segments []string, clock quota.Clock, log *slog.Logger) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record calls: %w", err)
	}
	r := &Recorder{
		file: f, most: most, cleaner: NewCleaner(segments), clock: cmp.Or[quota.Clock](clock, quota.SystemClock{}), log: log,
		queue: make(chan *Exchange, queued), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := r.prepare(); err != nil {
		return nil, fmt.Errorf("record calls: %w", errors.Join(err, f.Close()))
	}
	go r.write()
	return r, nil
}

// beginning is how each line of a recording begins.
const beginning = `{"at":"`

// prepare finds the end of the last whole line.
func (r *Recorder) prepare() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", r.file.Name())
	}
	r.size = info.Size()
	first := make([]byte, min(r.size, int64(len(beginning))))
	if _, err := r.file.ReadAt(first, 0); err != nil {
		return err
	}
	if !strings.HasPrefix(beginning, string(first)) {
		return fmt.Errorf("%s is no recording of calls; name another file", r.file.Name())
	}
	tail := make([]byte, min(r.size, longestLine))
	if _, err := r.file.ReadAt(tail, r.size-int64(len(tail))); err != nil {
		return err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	r.size -= int64(len(tail) - whole)
	return errors.Join(r.file.Truncate(r.size), r.file.Chmod(0o600))
}

// Close writes what waits, and closes the file. Calls that end later are not recorded.
func (r *Recorder) Close() error {
	close(r.stop)
	<-r.done
	r.log.Info("the recording has ended", "file", r.file.Name(), "calls", r.written, "not_kept", r.lost.Load())
	return r.file.Close()
}

// write writes the calls that wait, several whole lines at once. A kill may cut the last of them.
func (r *Recorder) write() {
	defer close(r.done)
	var lines []byte
	n := int64(0)
	for {
		if n > 0 && (len(lines) >= longestLine || len(r.queue) == 0) {
			r.append(lines, n)
			lines, n = lines[:0], 0
		}
		select {
		case x := <-r.queue:
			x.clean(r.cleaner)
			line, err := json.Marshal(x)
			if err != nil || len(line) >= longestLine { // no error: it has only texts and numbers
				r.lost.Add(1)
				continue
			}
			lines, n = append(append(lines, line...), '\n'), n+1
		case <-r.stop:
			if len(r.queue) == 0 && n == 0 {
				return
			}
		}
	}
}

func (r *Recorder) append(lines []byte, n int64) {
	if r.size+int64(len(lines)) > r.most {
		r.lost.Add(n)
		r.full.Do(func() {
			r.log.Warn("the recording is full; further calls are made and not recorded", "file", r.file.Name(), "bytes", r.size)
		})
		return
	}
	if _, err := r.file.Write(lines); err != nil {
		r.lost.Add(n)
		err = errors.Join(err, r.file.Truncate(r.size)) // a part of a line
		r.full.Do(func() { r.log.Warn("calls cannot be recorded", "error", err) })
		return
	}
	r.size, r.written = r.size+int64(len(lines)), r.written+n
}

// takes reports whether a call that begins now is recorded.
func (r *Recorder) takes() bool {
	if now := r.clock.Now().Unix(); r.second.Swap(now) != now {
		r.calls.Store(0)
	}
	if r.calls.Add(1) <= mostRate {
		return true
	}
	r.lost.Add(1)
	return false
}

// add takes a call, or counts it as not kept.
func (r *Recorder) add(x *Exchange) {
	x.At = r.clock.Now()
	select {
	case r.queue <- x:
	default:
		r.lost.Add(1)
	}
}

// Transport records what passes a base transport. Of returns the host of a request as it is
// kept, or "" for a call that is not recorded, and the header in which its key is.
func (r *Recorder) Transport(base http.RoundTripper, of func(*http.Request) (host, key string)) http.RoundTripper {
	return &transport{r, base, of}
}

type transport struct {
	*Recorder
	base http.RoundTripper
	of   func(*http.Request) (host, key string)
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil || resp == nil {
		return resp, err
	}
	host, key := t.of(req)
	if host == "" || !t.takes() {
		return resp, nil
	}
	x, reading := begin(host, req.Method, req.URL, key, resp.StatusCode, resp.Header, resp.ContentLength)
	if reading == nil || resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		t.add(x)
		return resp, nil
	}
	resp.Body = &body{ReadCloser: resp.Body, r: t.Recorder, x: x, reading: reading}
	return resp, nil
}

// body is an answer that is read while it passes.
type body struct {
	io.ReadCloser
	r *Recorder

	mu      sync.Mutex
	x       *Exchange // nil: it is over
	reading *content.Reading
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.saw(p[:min(max(n, 0), len(p))], err)
	return n, err
}

func (b *body) Close() error {
	b.saw(nil, io.ErrClosedPipe)
	return b.ReadCloser.Close()
}

// saw reads a piece of the body, and ends with an error.
func (b *body) saw(p []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.x == nil {
		return
	}
	_, _ = b.reading.Write(p) // it never fails
	if err != nil {
		b.x.end(b.reading, err == io.EOF) //nolint:errorlint // a reader returns it as it is
		b.r.add(b.x)
		b.x = nil
	}
}
