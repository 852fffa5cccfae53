package program_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// run runs a shell script as a program. Said gets its standard error.
func run(t *testing.T, ctx, abort context.Context, o program.Options, script string) error { //nolint:revive // t comes first
	t.Helper()
	name := "builtin"
	if len(o.Upstreams) > 0 {
		name = "builtin/" + o.Upstreams[0]
	}
	costs, err := headroom.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Job, o.Args = "tap", []string{"sh", "-c", script}
	if o.Upstreams == nil {
		o.Upstreams = []string{"youtube"}
	}
	o.Proxy.Keys = map[string]meter.KeySource{o.Upstreams[0]: meter.Key("AIza-not-a-key")}
	p, err := program.New(context.Background(), abort, l, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	return p.Run(ctx, abort)
}

// TestBudgetOfAnUnlistedAccount: what the job has spent before on this day counts, also of an
// account that the price book accepts and does not list.
func TestBudgetOfAnUnlistedAccount(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("curl is not installed: apt-get install curl")
	}
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  shop:
    hosts: [shop.test]
    accounts: any
    api_key: {header: X-Shop-Token}
    pools: {units: {quota: 1000, windows: [{per: day}]}}
    methods: {list: {route: GET /items, pool: units, cost: 1}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(nil)
	for _, want := range []string{"200 200 ", "200 429 "} { // the second one is another process
		l, err := quota.New(costs, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p, err := program.New(t.Context(), t.Context(), l, &program.Options{
			Job: "tap", Upstreams: []string{"shop"}, Account: "tenant-7", Budget: 3, Stdout: &out,
			Args: []string{"sh", "-c", `for i in 1 2; do ` + curl + ` -s -o /dev/null -w '%{http_code} ' -H "X-Shop-Token: $HEADROOM_TOKEN" "$HEADROOM_PROXY/shop/items"; done`},
			Proxy: proxy.Options{
				Keys: map[string]meter.KeySource{"shop@*": meter.Key("a-key")},
				Base: answers(func(req *http.Request) *http.Response {
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: req}
				}),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = p.Run(t.Context(), t.Context()) // the second ends with a refusal
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("the answers are %q, want %q", &out, want)
		}
	}
}

// answers is a function as a transport.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) { return a(req), nil }

// TestStops: what ends a program, and how. Each of them writes a line when it is asked to stop.
func TestStops(t *testing.T) {
	const obedient = `trap 'echo asked; exit' TERM; echo begun; for n in $(seq 6000); do sleep 0.01; done`
	const stubborn = `trap 'echo asked' TERM; echo begun; for n in $(seq 6000); do sleep 0.01; done`
	why := errors.New("max_runtime has passed")
	for name, c := range map[string]struct {
		script string
		end    func(stop, abort context.CancelCauseFunc)
		grace  time.Duration
		want   error
		asked  bool
	}{
		"it is told to stop":     {obedient, func(stop, _ context.CancelCauseFunc) { stop(nil) }, time.Hour, ingest.ErrInterrupted, true},
		"it has no time left":    {obedient, func(stop, _ context.CancelCauseFunc) { stop(why) }, time.Hour, why, true},
		"it does not stop":       {stubborn, func(stop, _ context.CancelCauseFunc) { stop(nil) }, 200 * time.Millisecond, ingest.ErrInterrupted, true},
		"its calls are ended":    {stubborn, func(_, abort context.CancelCauseFunc) { abort(nil) }, time.Hour, ingest.ErrInterrupted, false},
		"its lock is lost":       {stubborn, func(_, abort context.CancelCauseFunc) { abort(ingest.ErrLostLock) }, time.Hour, ingest.ErrLostLock, false},
		"and while it stops":     {stubborn, func(stop, abort context.CancelCauseFunc) { stop(nil); abort(ingest.ErrLostLock) }, time.Hour, ingest.ErrLostLock, false},
		"it is killed meanwhile": {stubborn, func(stop, abort context.CancelCauseFunc) { stop(why); abort(nil) }, time.Hour, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(context.Background())
			abort, kill := context.WithCancelCause(context.Background())
			defer stop(nil)
			defer kill(nil)
			out := &signalled{begun: func() { c.end(stop, kill) }}
			err := run(t, ctx, abort, program.Options{Grace: c.grace, Stdout: out}, c.script)
			if c.want != nil && !errors.Is(err, c.want) || err == nil || c.asked && !strings.Contains(out.said.String(), "asked") {
				t.Errorf("it ended with %v, after %q", err, &out.said)
			}
		})
	}
}

// signalled is an output that calls a function when the program has begun.
type signalled struct {
	said  bytes.Buffer
	begun func()
}

func (s *signalled) Write(p []byte) (int, error) {
	if s.said.Len() == 0 {
		s.begun()
	}
	return s.said.Write(p)
}

// TestEnds: a program that fails and one that cannot be started are told apart.
func TestEnds(t *testing.T) {
	ctx := context.Background()
	var status *exec.ExitError
	if err := run(t, ctx, ctx, program.Options{}, "exit 3"); !errors.Is(err, program.ErrFailed) || !errors.As(err, &status) || status.ExitCode() != 3 {
		t.Errorf("with a status: %v", err)
	}
	if err := run(t, ctx, ctx, program.Options{Dir: "/no/such/folder"}, "exit 3"); !errors.Is(err, program.ErrStart) {
		t.Errorf("without a folder: %v", err)
	}
	if err := run(t, ctx, ctx, program.Options{}, "exit 0"); err != nil {
		t.Errorf("well: %v", err)
	}
}

// TestOpenOutput: an incomplete last line goes, if the program writes it again.
func TestOpenOutput(t *testing.T) {
	long := strings.Repeat("x", 1<<20+2)
	for name, c := range map[string]struct {
		text  string
		state bool
		want  string
	}{
		"nothing":            {"", true, ""},
		"whole lines":        {"a\nb\n", true, "a\nb\n"},
		"an incomplete line": {"a\nb\nc", true, "a\nb\n"},
		"only that":          {"a", true, ""},
		"no state":           {"a\nb", false, "a\nb"},
		"a long one":         {"a\n" + long, true, "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := program.OpenOutput(path, c.state)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("more"); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != c.want+"more" {
				t.Errorf("it holds %d bytes, want %d", len(got), len(c.want)+4)
			}
		})
	}
}
