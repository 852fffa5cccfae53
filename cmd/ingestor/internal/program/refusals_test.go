package program_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

const twoPools = `
revision: 1
upstreams:
  two:
    hosts: [two.test]
    api_key: {header: X-Api-Key}
    accounts: {team: {}, default: {}}
    refusals: [{status: 403, header: {x-limited: "yes"}, for: 1s}]
    pools: {a: {quota: 2, windows: [{per: 1h}]}, b: {quota: 1000, windows: [{per: 1h}]}}
    methods:
      get.a: {route: GET /a, pool: a, cost: 1}
      get.2a: {route: GET /2a, pool: a, cost: 2}
      get.b: {route: GET /b, pool: b, cost: 1}
`

// transport is a function as a transport.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer is an answer of an upstream.
func answer(req *http.Request, status int) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
}

// functions are those of scripts. The function get calls the upstream two, and writes the status.
// The function await waits for a file.
const functions = `
P=$HEADROOM_PROXY/two
get() { curl -s -o /dev/null -w '%{http_code} ' -H "X-Api-Key: $HEADROOM_TOKEN" "$@"; }
await() {
	for n in $(seq 6000); do
		[ ! -e "$1" ] || return 0
		sleep 0.01
	done
	echo "$1 never came" >&2
	exit 99
}
`

// runOfTwo runs a shell script in a folder of its own, with [functions].
func runOfTwo(t *testing.T, o program.Options, store quota.Store, clock quota.Clock, base transport, script string) error {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is not installed: apt-get install curl")
	}
	costs, err := book.Parse("costs.yaml", []byte(twoPools), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(costs, store, &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	o.Job, o.Upstreams = "tap", []string{"two"}
	o.Args = []string{"sh", "-c", functions + script}
	o.Proxy = proxy.Options{Base: base, Clock: clock, Keys: map[string]meter.KeySource{"two": meter.Key("a-key"), "two@team": meter.Key("key-of-team")}}
	p, err := program.New(context.Background(), context.Background(), l, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	return p.Run(context.Background(), context.Background())
}

// TestOpenRefusal: a program that fails is deferred if units that a call was refused were not
// granted later. One that ends well is done, unless its last call was refused.
func TestOpenRefusal(t *testing.T) {
	const spend = "get $P/a $P/a; "
	for name, c := range map[string]struct {
		script   string
		budget   int64
		deferred bool
	}{
		"a call under way is answered later":    {spend + "get $P/b?slow & await begun; get $P/a; touch refused; wait; exit 1", 0, true},
		"another pool answers":                  {spend + "get $P/a $P/b; exit 1", 0, true},
		"the pool is open again":                {spend + "get $P/a $P/b?reset $P/a; exit 1", 0, false},
		"less of the pool is there":             {"get $P/a $P/2a $P/a; exit 1", 0, true},
		"it fails by itself":                    {"get $P/a; exit 1", 0, false},
		"it ends well after its last refusal":   {spend + "get $P/a", 0, true},
		"it ends well, and answered meanwhile":  {spend + "get $P/b?slow & await begun; get $P/a; touch refused; wait", 0, true},
		"it ends well, with another pool":       {spend + "get $P/a $P/b", 0, false},
		"its budget is used up":                 {"get $P/b $P/b $P/b $P/b; exit 1", 3, true},
		"its budget has room for smaller calls": {"get $P/b $P/b $P/2a $P/b; exit 1", 3, true},
		"the upstream refuses":                  {"get $P/b?limited; exit 1", 0, true},
		"the upstream refuses the last units":   {"get $P/a $P/a?limited; exit 1", 0, true},
		"it may not, with the last units":       {"get $P/a $P/a?denied; exit 1", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			clock := quota.NewSimClock(time.Now())
			base := func(req *http.Request) (*http.Response, error) {
				switch req.URL.RawQuery {
				case "slow":
					touch(t, filepath.Join(dir, "begun"))
					await(t, filepath.Join(dir, "refused"))
				case "reset":
					clock.Advance(24 * time.Hour)
				case "limited", "denied":
					resp, err := answer(req, http.StatusForbidden)
					resp.Header.Set("X-Limited", map[bool]string{true: "yes"}[req.URL.RawQuery == "limited"])
					return resp, err
				}
				return answer(req, http.StatusOK)
			}
			err := runOfTwo(t, program.Options{Dir: dir, Budget: c.budget}, memstore.New(&memstore.Options{Clock: clock}), clock, base, c.script)
			var refused *program.RefusedError
			if got := errors.As(err, &refused); got != c.deferred || got && refused.RetryAt.IsZero() {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Error(err)
	}
}

// await waits until a file is there.
func await(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%s never came", path)
			return
		}
	}
}

// down is a store that fails when there is a file.
type down struct {
	quota.Store
	when string
}

func (d *down) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if _, err := os.Stat(d.when); err == nil {
		return quota.Verdict{}, errors.New("the disk is full")
	}
	return d.Store.Reserve(ctx, r)
}

// TestOutageOfTheLedger: a program that fails because the ledger is down has met an outage.
func TestOutageOfTheLedger(t *testing.T) {
	for script, outage := range map[string]bool{
		"get $P/b; touch down; get $P/b; exit 1":                    true,
		"get $P/b; touch down; get $P/b; rm down; get $P/b; exit 1": false,
		"get $P/b; touch down; get $P/b; exit 0":                    false,
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			base := func(req *http.Request) (*http.Response, error) { return answer(req, http.StatusOK) }
			store := &down{memstore.New(nil), filepath.Join(dir, "down")}
			if err := runOfTwo(t, program.Options{Dir: dir}, store, nil, base, script); errors.Is(err, quota.ErrOutage) != outage || (err == nil) != strings.HasSuffix(script, "exit 0") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestAccount: a program with an account spends from no other one. One without may name its
// account in each call.
func TestAccount(t *testing.T) {
	for account, want := range map[string]string{"team": "200 403 403 ", "": "200 200 502 "} {
		var out strings.Builder
		base := func(req *http.Request) (*http.Response, error) { return answer(req, http.StatusOK) }
		script := `for a in team default nosuch; do get -H "Headroom-Account: $a" $P/b; done`
		if err := runOfTwo(t, program.Options{Account: account, Stdout: &out}, memstore.New(nil), nil, base, script); err != nil || out.String() != want {
			t.Errorf("of account %q, the answers are %q %v", account, &out, err)
		}
	}
}

// A program that wrote no state is told to begin anew only if it has no state from before.
func TestStateFromBefore(t *testing.T) {
	for before, want := range map[string]bool{"": true, "{}\n": true, `{"page": 25}`: false} {
		file := filepath.Join(t.TempDir(), "state.json")
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var log strings.Builder
		costs, err := book.Parse("costs.yaml", []byte(twoPools), nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := quota.New(costs, memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := program.New(t.Context(), t.Context(), l, &program.Options{
			Job: "tap", Upstreams: []string{"two"}, Args: []string{"/bin/sh", "-c", "true"}, State: file, Stdout: io.Discard, Stderr: io.Discard,
			Proxy: proxy.Options{Log: slog.New(slog.NewTextHandler(&log, nil))},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Run(t.Context(), t.Context()), p.Close()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "begins anew"); got != want {
			t.Errorf("state %q before: the log says %q", before, log.String())
		}
	}
}
