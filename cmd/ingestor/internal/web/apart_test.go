package web_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// One token against another, for everything that a token, an id or a receipt can name. What
// belongs to one token is unknown to the others, and what they try changes nothing.

const apart = `
revision: 1
upstreams:
  shop:
    classes: {bulk: {keep_free: 1}, other: {keep_free: 1}}
    accounts: {default: {}, staging: {}}
    pools:
      units: {quota: 10000000, windows: [{per: 24h, algorithm: log}]}
      leased: {quota: 10000000, windows: [{per: 24h}], lease: {life: 1m}}
    methods: {get: {pool: units, cost: 2}}
  other:
    classes: {bulk: {keep_free: 1}, other: {keep_free: 1}}
    accounts: {default: {}, staging: {}}
    pools: {units: {quota: 10000000, windows: [{per: 24h, algorithm: log}]}}
    methods: {get: {pool: units, cost: 2}, put: {pool: units, cost: 1}}
families:
  visitor: {quota: 1000000, windows: [{per: 1m, algorithm: counter}]}
`

// carols is what carol may call.
var carols = access.Grant{Upstreams: []string{"other"}, Methods: []string{"get"}, Classes: []string{"bulk"}, Budget: "10"}

// teller is a program with a token. The nameless one has no name.
type teller struct{ name, text string }

func (t teller) auth() []string { return []string{"Authorization", "Bearer " + t.text} }

var (
	alice = teller{"alice", strings.Repeat("alice-", 8)}
	bob   = teller{"bob", strings.Repeat("bob-", 10)}
	carol = teller{"carol", strings.Repeat("carol-", 8)}
	nobod = teller{"", strings.Repeat("nobody-", 8)}
	owner = teller{"owner", strings.Repeat("owner-", 8)}
)

// newApart returns a server over a store, with the tokens of all tellers.
func newApart(t *testing.T, store func(*testing.T, quota.Clock) quota.Store) *rig {
	t.Helper()
	budgets := new(lateBudgets)
	r := newRig(t, &web.Options{Budgets: budgets})
	costs, err := book.Parse("test", []byte(apart), nil)
	r.Must(err)
	r.Ledger, err = quota.New(costs, store(t, r.Clock), &quota.Options{Clock: r.Clock})
	r.Must(err)
	budgets.Budgets = proxy.NewBudgets(r.Ledger, r.Clock, nil)
	budgets.Update(map[string]*access.Grant{"carol": &carols})
	t.Cleanup(func() { _ = budgets.Flush(t.Context()) })
	r.tellers(alice, bob, carol, nobod, owner)
	return r
}

// lateBudgets are made after the server.
type lateBudgets struct{ *proxy.Budgets }

// tellers replaces the tokens of the server.
func (r *rig) tellers(all ...teller) {
	r.Helper()
	src := web.Sources{Sources: view.Sources{Ledger: r.Ledger, Catalog: r.Catalog, Runner: r.Runner, Jobs: r.Config.List()}, Names: []string{"hidden"}}
	for _, who := range all {
		rights := access.Rights
		if who.name == "owner" || who.name == "carol" {
			rights = append(slices.Clip(rights), access.Operate)
		}
		token, err := access.New(who.name, who.text, rights...)
		r.Must(err)
		if who.name == "carol" {
			token = token.Bound(&carols)
		}
		src.Tokens = append(src.Tokens, token)
	}
	r.Must(r.server.Update(src, r.Ledger.Book()))
}

// as makes a request with the token of a teller, and decodes the answer.
func (r *rig) as(who teller, path, body string, into any) (status int, text string) {
	r.Helper()
	method := "POST"
	if body == "" {
		method = "GET"
	}
	a := r.ask(method, path, body, who.auth()...)
	if into != nil {
		r.Must(json.Unmarshal([]byte(a.body), into))
	}
	return a.StatusCode, a.body
}

// object is a body of JSON.
func object(pairs ...any) string {
	all := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i].(string)] = pairs[i+1]
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// spent returns what the tokens have spent of all pools, by the first part of the job.
func (r *rig) spent() map[string]int64 {
	r.Helper()
	all, err := r.Ledger.View().Spend(r.Context(), quota.SpendQuery{}, quota.ByJob)
	r.Must(err)
	sums := map[string]int64{}
	for _, s := range all {
		name, _, _ := strings.Cut(s.Labels.Job, "/")
		sums[name] += s.Units
	}
	maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
	return sums
}

// forged returns a receipt with another secret: one that never was.
func forged(t *testing.T, receipt string) string {
	t.Helper()
	head, pools, _ := strings.Cut(receipt, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	fields["n"] = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef"))
	text, err = json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(text) + "." + pools
}

// held is a grant of the test.
type heldGrant struct {
	who      teller
	id, pool string
	units    int64 // reserved
	costs    int64 // that count
	receipt  string
	settled  bool
	released bool
}

// apartIDs are ids that look like those of others, or come near the limits.
var apartIDs = []string{
	"a", "job-2026-11-23", "alice/a", "@alice/a", "@bob/a", "@/a", "@-/a", "@", "@alice", "bob#a", "@bob#a", "a~b~-1~5", "x~1@alice~-1~1",
	strings.Repeat("l", 80), strings.Repeat("l", 122), strings.Repeat("l", 128), "@alice/" + strings.Repeat("l", 121),
}

func TestTokensApart(t *testing.T) {
	soak := os.Getenv("HEADROOM_SOAK") == "1"
	for name, s := range map[string]struct {
		open      func(*testing.T, quota.Clock) quota.Store
		few, many int
	}{
		"memory":   {inMemory, 800, 100_000},
		"sqlite":   {apartSQLite, 200, 20_000},
		"redis":    {apartRedis, 0, 20_000},
		"postgres": {apartPostgres, 0, 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			ops, seed := s.few, uint64(25)
			if soak {
				ops, seed = s.many, rand.Uint64()
			}
			if ops == 0 {
				t.Skip("HEADROOM_SOAK=1 runs it")
			}
			t.Logf("seed %d", seed)
			a := &apartTest{rig: newApart(t, s.open), T: t, rand: rand.New(rand.NewPCG(seed, 2)), known: map[string]*heldGrant{}, sums: map[string]int64{}}
			for n := range ops {
				a.step()
				if n%20 == 0 || n == ops-1 {
					a.compare()
				}
				if n%2000 == 1999 { // a day later nothing counts
					a.Clock.Advance(25 * time.Hour)
					a.known, a.all, a.sums = map[string]*heldGrant{}, nil, a.spent()
				}
			}
		})
	}
}

// apartTest is the state of the random test.
type apartTest struct {
	*rig
	*testing.T
	rand  *rand.Rand
	known map[string]*heldGrant // by token and id
	all   []*heldGrant
	sums  map[string]int64 // spent, by token
}

// T is the testing.T, which the rig has, too.
func (a *apartTest) pick(all ...teller) teller { return all[a.rand.IntN(len(all))] }

func (a *apartTest) step() {
	who := a.pick(alice, bob, nobod)
	switch n := a.rand.IntN(10); {
	case n < 4 || len(a.all) == 0:
		a.reserve(who)
	case n < 5:
		a.denied()
	default:
		a.settle(who, a.all[a.rand.IntN(len(a.all))])
	}
}

// reserve reserves with an id that others have, too.
func (a *apartTest) reserve(who teller) {
	id := apartIDs[a.rand.IntN(len(apartIDs))]
	pool := []string{"shop/units", "other/units", "shop@staging/units"}[a.rand.IntN(3)]
	units := 1 + a.rand.Int64N(3)
	body, before := object("pool", pool, "units", units, "id", id, "job", "j"), a.known[who.name+" "+pool+" "+id]
	if who.name == "" {
		body = strings.Replace(body, `"job":"j"`, `"job":"none/j"`, 1)
	}
	array := a.rand.IntN(2) == 0
	if array {
		body = "[" + body + "]"
	}
	status, text := a.as(who, "/v1/reserve", body, nil)
	if array {
		if status != http.StatusOK {
			a.T.Fatalf("%s: %d %s", body, status, text)
		}
		text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "["), "]")
	}
	var v problem.Verdict
	var p problem.Problem
	a.Must(json.Unmarshal([]byte(text), &v))
	a.Must(json.Unmarshal([]byte(text), &p))
	switch live := before != nil && !before.released; {
	case before != nil && before.units != units:
		if p.Status != http.StatusConflict {
			a.T.Fatalf("%s of %q, which has %d: %s", body, who.name, before.units, text)
		}
	case !v.Allowed || v.ID != id || v.Repeat != live || live && v.Token != before.receipt:
		a.T.Fatalf("%s of %q: %s (known: %+v)", body, who.name, text, before)
	case !live:
		g := &heldGrant{who: who, id: id, pool: pool, units: units, costs: units, receipt: v.Token}
		a.known[who.name+" "+pool+" "+id], a.all = g, append(a.all, g)
		a.sums[a.job(who)] += units
	}
}

// job is the first part of the jobs of a token.
func (a *apartTest) job(who teller) string {
	if who.name == "" {
		return "none"
	}
	return who.name
}

// settle settles or releases what belongs to the token, or to another one.
func (a *apartTest) settle(who teller, g *heldGrant) {
	path, units := "/v1/settle", []int64{0, 1, g.units, g.units + 5, 10 * g.units, 1 << 52}[a.rand.IntN(6)]
	body := func(receipt string) string { return object("token", receipt, "units", units) }
	if a.rand.IntN(3) == 0 {
		path, units = "/v1/release", 0
		body = func(receipt string) string { return object("token", receipt) }
	}
	var s struct {
		ID     string
		Repeat bool
	}
	status, text := a.as(who, path, body(g.receipt), &s)
	_, never := a.as(who, path, body(forged(a.T, g.receipt)), nil)
	latest := a.known[g.who.name+" "+g.pool+" "+g.id] == g
	switch what := fmt.Sprintf("%s to %d by %q of %q's %q (%+v)", path, units, who.name, g.who.name, g.id, *g); {
	case who != g.who, !latest: // the id was reserved again, so this receipt is gone
		if status != http.StatusGone || text != never {
			a.T.Fatalf("%s: %d %s\nof one that never was: %s", what, status, text, never)
		}
	case !g.settled && units > 10*g.units:
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, "settle_factor") {
			a.T.Fatalf("%s: %d %s", what, status, text)
		}
	case status != http.StatusOK || s.Repeat != g.settled:
		a.T.Fatalf("%s: %d %s", what, status, text)
	case !g.settled:
		a.sums[a.job(g.who)] += units - g.costs
		g.settled, g.released, g.costs = true, units == 0, units
	}
}

// denied tries what no token may do.
func (a *apartTest) denied() {
	for who, bodies := range map[teller][]string{
		nobod: {object("pool", "shop/units", "job", "alice"), object("pool", "shop/units", "job", "bob/x"), object("pool", "shop/units", "job", "hidden")},
		carol: {
			object("pool", "shop/units"), object("upstream", "shop", "method", "get"), object("pool", "other/units"), object("upstream", "other", "method", "put"),
			object("upstream", "other", "method", "get", "class", "other"), object("upstream", "other", "method", "get", "account", "staging"),
		},
	} {
		body := bodies[a.rand.IntN(len(bodies))]
		if status, text := a.as(who, "/v1/reserve", body, nil); status != http.StatusForbidden {
			a.T.Fatalf("%s of %q: %d %s", body, who.name, status, text)
		}
		if _, text := a.as(who, "/v1/reserve", "["+body+"]", nil); !strings.Contains(text, "no_right") {
			a.T.Fatalf("%s of %q in an array: %s", body, who.name, text)
		}
	}
}

// compare compares what the ledger counts with what the grants of all tokens cost.
func (a *apartTest) compare() {
	want := map[string]int64{}
	for _, g := range a.all {
		want[g.pool] += g.costs
	}
	for _, account := range []string{"default", "staging"} {
		usage, err := a.Ledger.View().Usage(a.T.Context(), "", account)
		a.Must(err)
		for _, u := range usage {
			if got := u.Windows[0].Used; got != want[u.Pool.String()] {
				a.T.Fatalf("%s: %d are used, want %d", u.Pool, got, want[u.Pool.String()])
			}
		}
	}
	got, sums := a.rig.spent(), maps.Clone(a.sums)
	maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(got, sums) {
		a.T.Fatalf("spent %v, want %v", got, sums)
	}
}

func apartSQLite(t *testing.T, clock quota.Clock) quota.Store {
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func apartRedis(t *testing.T, clock quota.Clock) quota.Store {
	server, err := redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { client.Close() })
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	s, err := redisstore.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func apartPostgres(t *testing.T, clock quota.Clock) quota.Store {
	s, err := pgstore.Open(pgtest.Shared(t), &pgstore.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
