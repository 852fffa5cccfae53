package meter_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/meter"
)

// In JSON that comes line by line, the last value that was reported wins.
func TestContentOfLines(t *testing.T) {
	r := newModel(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for n := range 100 {
			fmt.Fprintf(w, `{"text":"hello","usage":{"input":25,"output":%d}}`+"\n", n)
			w.(http.Flusher).Flush()
		}
	}, nil)
	r.post(messages, `{}`)
	r.spent(map[string]int64{"output": 99, "input": 25})
}

// A body that writes itself is read, too.
func TestContentOfABodyThatWritesItself(t *testing.T) {
	r := newModel(t, nil, nil)
	var to bytes.Buffer
	r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ContentLength: -1, Body: io.NopCloser(strings.NewReader(usage))}, nil
	})})
	resp, err := r.client.Post(messages, "", strings.NewReader("{}")) //nolint:bodyclose // the test reads it to its end
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(&to, resp.Body); n != int64(len(usage)) || err != nil || to.String() != usage {
		t.Errorf("%d bytes, %v: %s", n, err, to.String())
	}
	r.spent(map[string]int64{"output": 812})
}

// A retry is charged as sent, and each try by its own answer.
func TestContentOfRetries(t *testing.T) {
	n := 0
	r := newModel(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n++; n {
		case 1: // free
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2: // tells nothing
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			io.WriteString(w, usage)
		}
	}, nil)
	for range 3 {
		r.post(messages, `{"max_tokens":50}`)
	}
	r.spent(map[string]int64{"requests": 2, "output": 50 + 812})
}

// A long answer needs no more memory than a short one.
func TestContentOfALongAnswer(t *testing.T) {
	size := 8 << 20
	if os.Getenv("HEADROOM_SOAK") != "" {
		size = 100 << 20
	}
	piece := []byte(strings.Repeat(`{"text":"hello there","tags":["a","b"]},`, 1000))
	var r *rig
	var most uint64
	before := heap()
	r = newModel(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[`)
		for sent := 0; sent < size; sent += len(piece) {
			w.Write(piece)
		}
		io.WriteString(w, `{}],"usage":{"input":1,"output":77}}`)
	}, nil)
	resp, err := r.client.Post(messages, "", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	chunk, read := make([]byte, 32<<10), 0
	for next := size / 4; ; {
		n, err := resp.Body.Read(chunk)
		if read += n; err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if read >= next {
			most, next = max(most, heap()), next+size/4
		}
	}
	if read < size || most > before+2<<20 {
		t.Errorf("%d of %d bytes were read, with %d bytes of memory more", read, size, int64(most-before))
	}
	r.spent(map[string]int64{"output": 77})
}

// heap is how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
