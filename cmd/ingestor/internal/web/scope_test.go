package web_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	entries "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

func inMemory(_ *testing.T, clock quota.Clock) quota.Store {
	return memstore.New(&memstore.Options{Clock: clock})
}

// Every route is here: what a token with a grant may do by it is checked, or it takes no token.
// A new route needs a line.
func TestEveryRouteHasItsScope(t *testing.T) {
	open := func(*testing.T, *rig) {} // it takes no token, and changes nothing
	routes := map[string]func(*testing.T, *rig){
		"GET /api/v1/trending": open, "GET /api/v1/videos/{id}": open, "GET /api/v1/search": open, "GET /api/v1/quota": open,
		"GET /api/v1/regions": open, "GET /api/v1/runs": open, "GET /api/v1/openapi.json": open,
		"GET /{$}": open, "GET /search": open, "GET /regions": open, "GET /runs": open, "GET /runs/{id}": open, "GET /history": open,
		"GET /csv/{figure}": open, "GET /regions/{region}": open, "GET /act/{action}": open, "GET /fleet": open, "GET /static/{name}": open,
		"GET /metrics": open, "GET /livez": open, "GET /readyz": open,

		"POST /v1/reserve": func(t *testing.T, r *rig) {
			for body, want := range map[string]int{
				object("pool", "shop/units"):                                              http.StatusForbidden,
				object("upstream", "shop", "method", "get"):                               http.StatusForbidden,
				object("upstream", "other", "method", "put"):                              http.StatusForbidden,
				object("upstream", "other", "charges", map[string]int{"units": 1}):        http.StatusForbidden,
				object("upstream", "other", "method", "get", "class", "other"):            http.StatusForbidden,
				object("upstream", "other", "method", "get", "account", "staging"):        http.StatusForbidden,
				object("family", "visitor", "key", "k", "class", "other"):                 http.StatusForbidden,
				object("upstream", "other", "method", "get", "class", "bulk", "job", "j"): http.StatusOK,
			} {
				if got, text := r.as(carol, "/v1/reserve", body, nil); got != want {
					t.Errorf("%s: %d %s", body, got, text)
				}
			}
		},
		"POST /v1/settle":  func(t *testing.T, r *rig) { foreign(t, r, "/v1/settle", "units", 1) },
		"POST /v1/release": func(t *testing.T, r *rig) { foreign(t, r, "/v1/release") },
		"POST /v1/refused": func(t *testing.T, r *rig) { foreign(t, r, "/v1/refused") },
		"GET /v1/pools": func(t *testing.T, r *rig) {
			if _, text := r.as(carol, "/v1/pools", "", nil); strings.Contains(text, "shop") || !strings.Contains(text, "other/units") || strings.Contains(text, "staging") {
				t.Errorf("all pools: %s", text)
			}
			for _, query := range []string{"upstream=shop", "upstream=shop&account=staging", "upstream=other&account=staging", "account=staging"} {
				if got, text := r.as(carol, "/v1/pools?"+query, "", nil); got != http.StatusForbidden {
					t.Errorf("%s: %d %s", query, got, text)
				}
			}
			if got, _ := r.as(carol, "/v1/pools?upstream=other", "", nil); got != http.StatusOK {
				t.Errorf("its own: %d", got)
			}
		},
		"POST /act/{action}": func(t *testing.T, r *rig) {
			for pool, want := range map[string]int{"shop/units": http.StatusForbidden, "other@staging/units": http.StatusForbidden, " shop/units": http.StatusForbidden, "other/units": http.StatusSeeOther} {
				v := r.fill("/act/block?pool="+url.QueryEscape(pool), "for", "1h", "reason", "test")
				v.Set("token", carol.text)
				if a := r.send("block", v); a.StatusCode != want {
					t.Errorf("block %q: %s %s", pool, a.Status, a.body)
				}
			}
			usage, err := r.Ledger.View().Usage(t.Context(), "shop", "")
			r.Must(err)
			if u := usage[slices.IndexFunc(usage, func(u quota.Usage) bool { return u.Pool.Name == "units" })]; !u.Blocked.IsZero() {
				t.Error("a pool that the token may not use was blocked")
			}
		},
		// The limits of families are for those with the right, whatever they may call.
		"GET /v1/limits/{family}/{key}":    open,
		"PUT /v1/limits/{family}/{key}":    mayNotOperate("PUT"),
		"DELETE /v1/limits/{family}/{key}": mayNotOperate("DELETE"),
	}
	patterns := newApart(t, inMemory).server.Patterns()
	slices.Sort(patterns)
	if listed := slices.Sorted(maps.Keys(routes)); !slices.Equal(listed, patterns) {
		t.Errorf("the routes are %q, and those with a scope %q: say what a token may do by a new one", patterns, listed)
	}
	for pattern, check := range routes {
		t.Run(strings.ReplaceAll(pattern, "/", "_"), func(t *testing.T) { check(t, newApart(t, inMemory)) })
	}
}

// foreign settles with carol's token what is not hers.
func foreign(t *testing.T, r *rig, path string, more ...any) {
	t.Helper()
	var g problem.Verdict
	r.as(alice, "/v1/reserve", object("pool", "other/units", "units", 5), &g)
	lib, err := r.Ledger.Reserve(t.Context(), quota.Call{Upstream: "shop", Method: "get"})
	r.Must(err)
	for _, receipt := range []string{g.Token, lib.Token().String() + ".units"} {
		got, text := r.as(carol, path, object(append([]any{"token", receipt}, more...)...), nil)
		if _, never := r.as(carol, path, object(append([]any{"token", forged(t, receipt)}, more...)...), nil); got != http.StatusGone || text != never {
			t.Errorf("%d %s\nof one that never was: %s", got, text, never)
		}
	}
}

func mayNotOperate(method string) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) {
		if a := r.ask(method, "/v1/limits/visitor/k", object("quota", 5, "reason", "r"), alice.auth()...); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
}

// What a program began before its token was replaced, and before this version, it can end.
func TestReceiptsOutliveTokens(t *testing.T) {
	r := newApart(t, func(t *testing.T, clock quota.Clock) quota.Store {
		s := leasestore.New(inMemory(t, clock), &leasestore.Options{Clock: clock})
		t.Cleanup(func() { s.Close() })
		return s
	})
	var first, again problem.Verdict
	r.as(alice, "/v1/reserve", object("pool", "shop/units", "units", 5, "id", "a"), &first)
	rotated := teller{"alice", strings.Repeat("rotated-", 8)}
	r.tellers(rotated, bob)
	if r.as(rotated, "/v1/reserve", object("pool", "shop/units", "units", 5, "id", "a"), &again); !again.Repeat || again.Token != first.Token {
		t.Errorf("the id with a new token of the name: %+v", again)
	}
	if got, text := r.as(rotated, "/v1/settle", object("token", first.Token, "units", 3), nil); got != http.StatusOK {
		t.Errorf("settled with a new token of the name: %d %s", got, text)
	}
	// the earlier version gave ids to the ledger as they came
	old, err := r.Ledger.Reserve(t.Context(), quota.Call{Upstream: "shop", Charges: quota.Units{"units": 5}, ID: "before"})
	r.Must(err)
	if got, text := r.as(bob, "/v1/settle", object("token", old.Token().String()+".units", "units", 3), nil); got != http.StatusOK || !strings.Contains(text, `"before"`) {
		t.Errorf("a receipt of the earlier version: %d %s", got, text)
	}
	// without an id, and from a block that calls of several tokens share
	for _, pool := range []string{"shop/units", "shop/leased"} {
		var g problem.Verdict
		fromBlock := func() bool {
			head, _, _ := strings.Cut(g.Token, ".")
			token, err := quota.ParseToken(head)
			r.Must(err)
			_, is := storekit.ReadPart(token.ID)
			return is
		}
		for n := 0; n == 0 || pool == "shop/leased" && !fromBlock(); n++ {
			if n == 1000 {
				t.Fatal("no call is served from a block")
			}
			g = problem.Verdict{}
			r.as(rotated, "/v1/reserve", object("pool", pool), &g)
		}
		if !fromBlock() && strings.Contains(g.ID, "alice") {
			t.Errorf("%s: the id is %q", pool, g.ID)
		}
		if got, text := r.as(bob, "/v1/release", object("token", g.Token), nil); got != http.StatusGone {
			t.Errorf("%s: released by another: %d %s", pool, got, text)
		}
		if got, text := r.as(rotated, "/v1/release", object("token", g.Token), nil); got != http.StatusOK {
			t.Errorf("%s: released: %d %s", pool, got, text)
		}
	}
}

// A budget is one for all ways in. Repeats and refusals cost nothing of it, and what was
// settled to less comes back.
func TestBudgetOverHTTP(t *testing.T) {
	r := newApart(t, inMemory) // carol may spend 10, and a call costs 2
	get := func(id string, want int) (g problem.Verdict) {
		t.Helper()
		if got, text := r.as(carol, "/v1/reserve", object("upstream", "other", "method", "get", "id", id), &g); got != want {
			t.Errorf("%s: %d %s", id, got, text)
		}
		return g
	}
	a := get("a", http.StatusOK)
	for range 9 {
		get("a", http.StatusOK)
	}
	for _, id := range []string{"b", "c", "d", "e"} {
		get(id, http.StatusOK)
	}
	get("f", http.StatusTooManyRequests)
	if p := r.problem(http.StatusTooManyRequests, "POST", "/v1/reserve", object("upstream", "other", "method", "get"), carol.auth()...); p.Code != "budget" {
		t.Errorf("%+v", p)
	}
	for range 2 {
		if got, text := r.as(carol, "/v1/release", object("token", a.Token), nil); got != http.StatusOK {
			t.Errorf("%d %s", got, text)
		}
	}
	get("f", http.StatusOK)
	get("g", http.StatusTooManyRequests)
	if got := r.spent()["carol"]; got != 10 {
		t.Errorf("%d are spent, want 10", got)
	}
}

// A program settles upward as far as the call can have cost.
func TestSettlingUpwardIsBounded(t *testing.T) {
	r := newApart(t, inMemory)
	var one, ten problem.Verdict
	r.as(alice, "/v1/reserve", object("pool", "shop/units", "units", 1), &one)
	r.as(alice, "/v1/reserve", object("pool", "shop/units", "units", 10), &ten)
	for _, c := range []struct {
		receipt string
		units   int64
		status  int
	}{
		{one.Token, 1<<53 - 1, http.StatusUnprocessableEntity},
		{one.Token, 11, http.StatusUnprocessableEntity},
		{one.Token, 10, http.StatusOK},
		{one.Token, 1<<53 - 1, http.StatusOK}, // a repeat of the first
		{ten.Token, 101, http.StatusUnprocessableEntity},
		{ten.Token, 100, http.StatusOK},
	} {
		got, text := r.as(alice, "/v1/settle", object("token", c.receipt, "units", c.units), nil)
		if got != c.status || got != http.StatusOK && !strings.Contains(text, "settle_factor of pool units of upstream shop in costs.yaml") {
			t.Errorf("to %d: %d %s", c.units, got, text)
		}
	}
	if got := r.spent()["alice"]; got != 110 {
		t.Errorf("%d are spent, want 110", got)
	}
	lib, err := r.Ledger.Reserve(t.Context(), quota.Call{Upstream: "shop", Method: "get"})
	r.Must(err)
	if s, err := lib.Settle(t.Context(), quota.Units{"units": 5000}); err != nil || s.Charged != 4998 {
		t.Errorf("in the process: %+v, %v", s, err)
	}
}

// Envoy asks with the scope of its token, too, also if it takes nothing.
func TestScopeForEnvoy(t *testing.T) {
	r := newApart(t, inMemory)
	costs, err := book.Parse("test", []byte(apart+`
descriptors:
  - {domain: d, entries: [shop], pool: shop/units}
  - {domain: d, entries: [other], pool: other/units}
`), nil)
	r.Must(err)
	r.Must(r.Ledger.SetBook(costs))
	wide := carols
	wide.Methods = nil
	token, err := access.New("carol", carol.text, access.Rights...)
	r.Must(err)
	src := *r.server.Current()
	src.Tokens = []*access.Token{token.Bound(&wide)}
	r.Must(r.server.Update(src, costs))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.server.ServeEnvoy(ctx, ctx, l) }()
	t.Cleanup(func() { stop(); r.Must(<-ended) })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.Must(err)
	t.Cleanup(func() { conn.Close() })
	client := rls.NewRateLimitServiceClient(conn)
	ask := func(name string, hits uint64) (*rls.RateLimitResponse, error) {
		d := &entries.RateLimitDescriptor{Entries: []*entries.RateLimitDescriptor_Entry{{Key: name, Value: "x"}}, HitsAddend: wrapperspb.UInt64(hits)}
		return client.ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+carol.text), &rls.RateLimitRequest{Domain: "d", Descriptors: []*entries.RateLimitDescriptor{d}})
	}
	for _, hits := range []uint64{0, 1} {
		if _, err := ask("shop", hits); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%d of an upstream that the token may not use: %v", hits, err)
		}
	}
	for hits, want := range map[uint64]rls.RateLimitResponse_Code{11: rls.RateLimitResponse_OVER_LIMIT, 9: rls.RateLimitResponse_OK} {
		if got, err := ask("other", hits); err != nil || got.GetOverallCode() != want {
			t.Errorf("%d of a budget of 10: %v, %v", hits, got, err)
		}
	}
}

// The call that goes first after a block is not ended by another token, whatever that settles.
func TestNobodyElseEndsAProbe(t *testing.T) {
	r := newApart(t, inMemory)
	pool := quota.Pool{Upstream: "other", Account: quota.DefaultAccount, Name: "units"}
	r.Must(r.Ledger.BlockFor(t.Context(), pool, time.Minute, "the upstream said no"))
	r.Clock.Advance(time.Minute)
	var first problem.Verdict
	body := object("pool", "other/units", "units", 5)
	r.as(alice, "/v1/reserve", body, &first)
	for _, path := range []string{"/v1/settle", "/v1/release"} {
		pairs := []any{"token", first.Token}
		if path == "/v1/settle" {
			pairs = append(pairs, "units", 5)
		}
		if got, text := r.as(bob, path, object(pairs...), nil); got != http.StatusGone {
			t.Errorf("%s: %d %s", path, got, text)
		}
		if got, text := r.as(bob, "/v1/reserve", body, nil); got != http.StatusTooManyRequests || !strings.Contains(text, "one call goes first") {
			t.Errorf("after %s of another token: %d %s", path, got, text)
		}
	}
	r.as(alice, "/v1/settle", object("token", first.Token, "units", 5), nil)
	if got, text := r.as(bob, "/v1/reserve", body, nil); got != http.StatusOK {
		t.Errorf("after its answer: %d %s", got, text)
	}
}
