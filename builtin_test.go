package headroom_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

var update = flag.Bool("update", false, "rewrite the golden files of the built-in price books")

// recordings has a folder for each built-in book. An archive in it is what one program
// sends, the answers as the upstream documents them, and the time between. golden.txt is
// what the ledger made of all of them.
const recordings = "quota/book/builtin/testdata"

// recorded is when the recordings begin.
var recorded = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestBuiltinRecordings sends what is recorded through the real transport.
func TestBuiltinRecordings(t *testing.T) {
	for _, name := range headroom.Builtins() {
		short, other := strings.CutPrefix(name, "builtin/")
		if !other || short == "youtube-2025" {
			continue // YouTube has its simulator
		}
		t.Run(short, func(t *testing.T) {
			dir := filepath.Join(recordings, short)
			paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
			if err != nil || len(paths) < 3 {
				t.Fatalf("%d recordings of %s: %v", len(paths), name, err)
			}
			var got strings.Builder
			for _, path := range paths {
				replay(t, &got, name, path)
			}
			golden := filepath.Join(dir, "golden.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s differs (-golden +now):\n%s", golden, diff)
			}
		})
	}
}

// placeholder is the key of every upstream.
const placeholder = "EXAMPLE-KEY"

// replay sends the requests of a recording, and writes what became of them.
func replay(t *testing.T, out *strings.Builder, name, path string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "# %s\n# %s\n", strings.TrimSuffix(filepath.Base(path), ".txtar"), strings.Join(strings.Fields(string(archive.Comment)), " "))
	b := load(t, name)
	clock := quota.NewSimClock(recorded)
	store := &witness{Store: memstore.New(&memstore.Options{Clock: clock}), clock: clock, out: out}
	ledger, err := quota.New(b, store, &quota.Options{Clock: clock, Observer: quota.ObserverFunc(store.observe)})
	if err != nil {
		t.Fatal(err)
	}
	keys, header := map[string]meter.KeySource{}, ""
	for upstream, u := range b.Upstreams {
		if keys[upstream] = meter.Key(placeholder); u.AnyAccount {
			keys[upstream+"@*"] = meter.Key(placeholder)
		}
		header = u.Key.Header
	}
	server := &player{t: t, path: path, header: header, ledger: store}
	transport, err := meter.New(ledger, &meter.Options{Base: server, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	repeat := 1
	for i := 0; i < len(archive.Files); i++ {
		switch f := archive.Files[i]; f.Name {
		case "repeat": // the next request, and tell of the last one
			if repeat, err = strconv.Atoi(strings.TrimSpace(string(f.Data))); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		case "wait":
			d, err := time.ParseDuration(strings.TrimSpace(string(f.Data)))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			clock.Advance(d)
			fmt.Fprintf(out, "wait %s\n", d)
		case "request":
			request := f.Data
			if server.answer = nil; i+1 < len(archive.Files) && archive.Files[i+1].Name == "answer" {
				i++
				server.answer = archive.Files[i].Data
			}
			call := func() { store.call(transport, readRequest(t, path, request)) }
			if repeat > 1 {
				fmt.Fprintf(out, "%d times, of which the last:\n", repeat)
			}
			for ; repeat > 1; repeat-- {
				store.out = &strings.Builder{}
				call()
			}
			store.out = out
			call()
		default:
			t.Fatalf("%s: there is no section %q here", path, f.Name)
		}
	}
	out.WriteByte('\n')
}

// readRequest makes the request that a section describes.
func readRequest(t *testing.T, path string, text []byte) *http.Request {
	t.Helper()
	head, body, _ := bytes.Cut(text, []byte("\n\n"))
	body = bytes.TrimSuffix(body, []byte("\n"))
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(slices.Clip(head), "\n\n"...))))
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	out, err := http.NewRequestWithContext(t.Context(), req.Method, "https://"+req.Host+req.RequestURI, bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out.Header = req.Header
	return out
}

// player answers with what is recorded.
type player struct {
	t      *testing.T
	path   string
	header string // which has the key of metered calls
	ledger *witness
	answer []byte // nil: the request must not be sent
}

func (p *player) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.answer == nil {
		p.t.Errorf("%s: %s %s was sent, and there is no answer to it", p.path, req.Method, req.URL)
		return nil, errors.New("no answer is recorded")
	}
	if keyed := req.Header.Get(p.header) == placeholder; keyed != (p.ledger.charges != nil) {
		p.t.Errorf("%s: %s %s has the key in the header %q: %t", p.path, req.Method, req.URL, p.header, keyed)
	}
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(append(slices.Clip(p.answer), '\n'))), req)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", p.path, err, p.answer)
	}
	resp.Body = &pieces{r: resp.Body}
	return resp, nil
}

// pieces gives a body in small pieces, as a network does.
type pieces struct{ r io.ReadCloser }

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), 100)]) }
func (p *pieces) Close() error               { return p.r.Close() }

// witness is a store that writes down what it is asked.
type witness struct {
	*memstore.Store
	clock   *quota.SimClock
	mu      sync.Mutex
	out     *strings.Builder
	charges []quota.Charge // of the last reservation
}

// say writes for the goroutine of a call, and for those that settle behind its back.
func (w *witness) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, format, args...)
}

// call makes a call, and writes down the state of the pools that it charges.
func (w *witness) call(transport *meter.Transport, req *http.Request) {
	w.say("%s %s%s\n", req.Method, req.URL.Host, req.URL.Path)
	w.charges = nil
	resp, err := transport.RoundTrip(req)
	if err != nil {
		var refused *quota.RefusedError
		if errors.As(err, &refused) {
			w.say("  not sent: %s, retry after %s\n", short(refused.Pool), refused.RetryAfter)
		} else {
			w.say("  error: %s\n", err)
		}
	} else {
		w.say("  answer %d\n", resp.StatusCode)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err := transport.Flush(context.Background()); err != nil {
		w.say("  error: %s\n", err)
	}
	if w.charges == nil {
		return
	}
	states, err := w.Look(context.Background(), w.charges)
	if err != nil {
		w.say("  error: %s\n", err)
	}
	for _, s := range states {
		w.say("  now %s:", short(s.Pool))
		for _, used := range s.Windows {
			w.say(" %d of %d in %s;", used.Used, used.Limit, used.Window)
		}
		if s.Blocked.After(s.Now) {
			w.say(" shut until %s", s.Blocked.UTC().Format(time.TimeOnly+" 01-02"))
		}
		w.say("\n")
	}
}

// short names a pool within the only upstream of a recording.
func short(p quota.Pool) string {
	name := p.Name
	if p.Account != quota.DefaultAccount {
		name += "@" + p.Account
	}
	if p.Key != "" {
		name += "[" + p.Key + "]"
	}
	return name
}

func (w *witness) charged(charges []quota.Charge) string {
	all := make([]string, len(charges))
	for i, c := range charges {
		all[i] = fmt.Sprintf("%s %d", short(c.Pool), c.Units)
	}
	return strings.Join(all, ", ")
}

func (w *witness) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	w.charges = slices.Clone(r.Charges)
	v, err := w.Store.Reserve(ctx, r)
	if v.Allowed {
		w.say("  reserved for %s: %s\n", r.Labels.Method, w.charged(r.Charges))
	}
	return v, err
}

func (w *witness) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	s, err := w.Store.Settle(ctx, t, units)
	if err == nil && !s.Repeat {
		all := make([]string, 0, len(w.charges))
		for _, c := range w.charges {
			if n, named := units[c.Pool.Name]; named || units == nil {
				all = append(all, fmt.Sprintf("%s %d", short(c.Pool), n))
			}
		}
		w.say("  settled: %s\n", strings.Join(all, ", "))
	}
	return s, err
}

func (w *witness) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	units, err := w.Store.Record(ctx, r)
	for _, c := range r.Charges {
		if n := units[c.Pool.Name]; n != 0 {
			if r.Labels.Method == quota.Others {
				w.say("  learned: %s, %d units of others since %s\n", short(c.Pool), n, r.At.UTC().Format(time.TimeOnly))
			} else {
				w.say("  counted at the end: %s %d\n", short(c.Pool), n)
			}
		}
	}
	return units, err
}

func (w *witness) Block(ctx context.Context, b quota.BlockRequest) error {
	names := make([]string, len(b.Charges))
	for i, c := range b.Charges {
		names[i] = short(c.Pool)
	}
	until := "for " + b.For.String()
	if b.For == 0 {
		until = "until " + b.Until.UTC().Format("15:04:05.000 01-02")
	}
	w.say("  shut: %s %s\n", strings.Join(names, ", "), until)
	return w.Store.Block(ctx, b)
}

// observe writes down the limits that answers have reported.
func (w *witness) observe(e quota.Event) {
	if e.Kind == "limit" {
		w.say("  learned: %s has a limit of %d until %s\n", short(e.Pool), e.Units, e.Until.UTC().Format(time.TimeOnly+" 01-02"))
	}
}
