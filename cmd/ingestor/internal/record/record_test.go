package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

func TestWhatOfAPathIsKept(t *testing.T) {
	c := NewCleaner([]string{"geocodes", "linear.app"})
	for path, want := range map[string]string{
		"/v1/users/alice/orders":              "/v1/users/{id}/orders",
		"/v1beta1/models/gemini-x:generate":   "/v1beta1/models/{id}",
		"/admin/api/2026-10/products/42.json": "/admin/api/2026-10/products/{id}",
		"/rest/api/3/issueTypes":              "/rest/api/{id}/issueTypes",
		"/2.0/boxes/linear.app/geocodes":      "/2.0/{id}/linear.app/geocodes",
		"/users/1990-05-17":                   "/users/{id}",
		"/b%C3%BCro/%zz":                      "/{id}/{id}",
		"/":                                   "/",
		"/search/":                            "/search/",
	} {
		if got := c.Path(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestWhatOfAValueIsKept(t *testing.T) {
	c := NewCleaner(nil)
	for _, text := range []string{
		"4999", "1764290000", "1764290000123", "0.25", "6m0s", "120ms", "2026-11-28T00:00:00Z", "Sat, 28 Nov 2026 00:43:32 GMT", "32/40", "api-usage=18/15000",
		`"burst";q=100;w=60, "daily";q=1000;w=86400`, "limit=100, remaining=50, reset=30", "100;w=60", `{"call_count":28,"total_time":25}`, "core", "RATE_LIMITED", "THROTTLED",
	} {
		if got := c.Value(text); got != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	for _, text := range []string{"alicesmith", "41111111111111111", "account 4711 of alicesmith", `"alicesmith";r=5`, "YWxpY2U=", ":YWxpY2U=:", "a@b.example"} {
		if got := c.Value(text); strings.Contains(got, "alice") || strings.Contains(got, "YWx") || strings.Contains(got, "4711") || strings.Contains(got, "4111") || strings.Contains(got, "@") {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	if c.Value(`"acme";r=5`)[:8] != c.Value(`"acme";q=9`)[:8] {
		t.Error("one policy has two stand-ins")
	}
}

// open opens a recording.
func open(t *testing.T, path string, most int64) *Recorder {
	t.Helper()
	r, err := Open(path, most, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exchanges reads a recording, each line of which must be whole.
func exchanges(t *testing.T, path string) (all []Exchange) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		t.Errorf("the last line is torn: %q", text[max(0, len(text)-80):])
	}
	for line := range bytes.Lines(text) {
		var x Exchange
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func TestARecordingGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	for range 2 {
		r := open(t, path, 1<<20)
		r.add(&Exchange{Host: "api.example.com", Path: "/v1/items"})
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, `{"at": "torn`); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path, 1<<20).Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(exchanges(t, path)); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAnotherFileIsNotOverwritten(t *testing.T) {
	for _, notes := range []string{"my notes", "my notes\n", "{\"a\": 1}\n", "\n"} {
		path := filepath.Join(t.TempDir(), "notes.txt")
		if err := os.WriteFile(path, []byte(notes), 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, 1<<20, nil, quota.SystemClock{}, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("no error")
		}
		info, err := os.Stat(path)
		if text, _ := os.ReadFile(path); string(text) != notes || err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("the file has %q and mode %s", text, info.Mode())
		}
	}
}

func TestARecordingIsBounded(t *testing.T) {
	const most = 5000
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	r := open(t, path, most)
	for range 1000 {
		r.add(&Exchange{Host: "api.example.com", Path: "/v1/items"})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := int64(len(exchanges(t, path)))
	if info.Size() > most || kept == 0 && info.Size() > 0 || kept != r.written || kept+r.lost.Load() != 1000 {
		t.Errorf("%d bytes, %d calls, written %d, lost %d", info.Size(), kept, r.written, r.lost.Load())
	}
}

// A proxy at its limit does not pay for all of its calls.
func TestOnlySoManyCallsASecondAreRecorded(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC))
	r := &Recorder{clock: clock}
	for range 3 {
		taken := 0
		for range 2 * mostRate {
			if r.takes() {
				taken++
			}
		}
		if taken != mostRate {
			t.Errorf("%d calls in a second, want %d", taken, mostRate)
		}
		clock.Advance(time.Second)
	}
	if lost := r.lost.Load(); lost != 3*mostRate {
		t.Errorf("%d calls are counted as lost", lost)
	}
}

// A disk that does not answer delays no call.
func TestCallsDoNotWaitForTheDisk(t *testing.T) {
	r := &Recorder{clock: quota.SystemClock{}, queue: make(chan *Exchange, queued)} // nobody writes
	for range queued + 7 {
		r.add(&Exchange{})
	}
	if lost := r.lost.Load(); lost != 7 {
		t.Errorf("%d calls are counted as lost, want 7", lost)
	}
}

// A kill may end a write at the border of a page, so the last line may be torn. Those before it are
// whole, and none is missing.
func TestAKilledRecorderLeavesWholeLines(t *testing.T) {
	call := func(i int) *Exchange {
		return &Exchange{Host: "api.example.com", Path: "/v1/items", Body: map[string]string{"usage.total_tokens": fmt.Sprint(i)}}
	}
	if path := os.Getenv("RECORD_TO"); path != "" {
		r := open(t, path, 1<<30)
		for i := 0; ; {
			if len(r.queue) == cap(r.queue) { // the next call would be left out
				runtime.Gosched()
				continue
			}
			r.add(call(i))
			i++
		}
	}
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAKilledRecorderLeavesWholeLines$")
	cmd.Env = append(os.Environ(), "RECORD_TO="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for size := int64(0); size <= 1<<20; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(path); err == nil {
			size = info.Size()
		}
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.Count(text, []byte("\n"))
	if whole < 1000 {
		t.Fatalf("%d calls", whole)
	}
	// However the last write was cut, whole lines stay, and the next recorder goes on behind them.
	last := bytes.LastIndexByte(text[:bytes.LastIndexByte(text, '\n')], '\n') + 1
	for size, want := range map[int]int{len(text): whole, last: whole - 1, last + 1: whole - 1, last + 20: whole - 1} {
		if err := os.WriteFile(path, text[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, path, 1<<30)
		r.add(call(want))
		r.add(call(want + 1))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		all := exchanges(t, path)
		if len(all) != want+2 {
			t.Errorf("%d of %d bytes: %d calls, want %d and 2 more", size, len(text), len(all), want)
		}
		for i := range all {
			if got := all[i].Body["usage.total_tokens"]; got != fmt.Sprint(i) {
				t.Fatalf("%d of %d bytes: call %s follows call %d", size, len(text), got, i-1)
			}
		}
	}
}

// The end of a recording is sought in its last 64 KiB.
func TestNoLineIsLongerThanWhatIsReadOfTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	r := open(t, path, 1<<20)
	long := &Exchange{Host: "api.example.com", Path: "/v1/items", Header: map[string]string{}}
	for i := range 200 {
		long.Header[fmt.Sprintf("X-Ratelimit-%d", i)] = strings.Repeat("1234567890, ", 40)
	}
	r.add(long)
	r.add(&Exchange{Host: "api.example.com", Path: "/v1/items"})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(exchanges(t, path)); n != 1 || r.lost.Load() != 1 {
		t.Errorf("%d calls are kept, and %d are lost", n, r.lost.Load())
	}
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestAStreamIsReadWhileItPasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	r := open(t, path, 1<<20)
	const text = "data: {\"usage\": {\"input_tokens\": 12}}\n\ndata: {\"usage\": {\"output_tokens\": 34}}\n\n"
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(text))}, nil
	})
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://api.example.com/v1/messages", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.Transport(base, func(*http.Request) (string, string) { return "api.example.com", "X-Api-Key" }).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != text {
			t.Errorf("the caller got %q, %v", got, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	all := exchanges(t, path)
	if len(all) != 2 || all[1].Kind != "stream" || all[1].Body["usage.input_tokens"] != "12" || all[1].Body["usage.output_tokens"] != "34" {
		t.Errorf("%+v", all)
	}
}

// Of a query, only sizes are kept, whose names a client may have escaped.
func TestSizesOfAQuery(t *testing.T) {
	for query, want := range map[string]map[string]string{
		"limit=100&q=alice":                       {"limit": "100"},
		"page%5Bsize%5D=25&%24top=5&%zz=1":        {"page[size]": "25", "$top": "5"},
		"num=4711&limit=12345&first=-1&size=a&q=": nil,
	} {
		if got := sizesOf(query); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}
