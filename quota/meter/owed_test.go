package meter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const owedBook = `
revision: 1
budgets: {all: {quota: 100 USD, windows: [{per: month}], of: llm}}
upstreams:
  llm:
    hosts: [llm.example.com]
    api_key: {header: X-Api-Key}
    feedback: [{pool: tokens, remaining: {header: X-Left}}]
    pools:
      tokens: {quota: 1000000, windows: [{per: 24h}]}
      at_once: {windows: [{in_flight: 8000, ttl: 1h}]}
    prices: {by: {body: model}, default: refuse, cases: {m: {out: 1000 USD}}}
    methods:
      ask:
        route: POST /ask
        charge: {at_once: 1, tokens: {estimate: {body: max, default: 1}, actual: {body: used}}}
        bill: {estimate: {body: max, default: 1, price: out}, actual: {body: used, price: out}}
  other:
    hosts: [other.example.com]
    pools: {tokens: {quota: 1000, windows: [{per: 24h}]}}
    methods: {ask: {route: POST /ask, cost: {estimate: {body: max, default: 1}, actual: {body: used}}}}
`

// outage is a store that cannot be told what a call has cost while it is out, of one upstream or of all. If it is deaf,
// it is told, and only its reply is lost.
type outage struct {
	quota.Store
	out, deaf atomic.Bool
	only      atomic.Value // the name of the upstream; "" and nil are all
	asked     atomic.Int64
	gone      atomic.Bool // so are the receipts
}

var errOut = errors.New("no route to host")

func (s *outage) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	s.asked.Add(1)
	only, _ := s.only.Load().(string)
	switch {
	case s.deaf.Load():
		_, _ = s.Store.Settle(ctx, t, units)
		return quota.Settlement{}, errOut
	case s.gone.Load():
		return quota.Settlement{}, quota.ErrNoReceipt
	case s.out.Load() && (only == "" || only == t.Upstream):
		return quota.Settlement{}, errOut
	}
	return s.Store.Settle(ctx, t, units)
}

func (s *outage) Slots(ctx context.Context, all []quota.Token, done bool) ([]bool, error) {
	if s.out.Load() {
		return nil, errOut
	}
	return s.Store.Slots(ctx, all, done)
}

// owing is a transport whose ledger may be out when answers end.
type owing struct {
	*testing.T
	*Transport
	store  *outage
	ledger *quota.Ledger
	log    bytes.Buffer
	answer func(*http.Request) (*http.Response, error) // nil: that 700 are used
}

func owes(t *testing.T, f func(*owing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, err := book.Parse("costs.yaml", []byte(owedBook), nil)
		if err != nil {
			t.Fatal(err)
		}
		o := &owing{T: t, store: &outage{Store: memstore.New(nil)}}
		if o.ledger, err = quota.New(b, o.store, &quota.Options{Flag: " --ledger sqlite:l.db"}); err != nil {
			t.Fatal(err)
		}
		o.Transport, err = New(o.ledger, &Options{Base: base{o}, Keys: map[string]KeySource{"llm": Key("s3cret")}, Logger: slog.New(slog.NewTextHandler(&o.log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		f(o)
		o.has("", "s3cret")
	})
}

// base makes the calls of an owing transport.
type base struct{ *owing }

func (o base) RoundTrip(r *http.Request) (*http.Response, error) {
	if o.answer != nil {
		return o.answer(r)
	}
	return answers("700"), nil
}

func answers(used string) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"used":` + used + `}`)), ContentLength: -1}
}

// ask makes a call that reserves as many tokens, and reads all of its answer.
func (o *owing) ask(ctx context.Context, host string, tokens int) {
	o.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", "https://"+host+"/ask", strings.NewReader(fmt.Sprintf(`{"model":"m","max":%d}`, tokens)))
	if err != nil {
		o.Fatal(err)
	}
	resp, err := o.Transport.RoundTrip(r)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil && !errors.Is(err, errOut) {
		o.Error(err)
	}
	synctest.Wait()
}

// sleep also waits for what then goes on.
func (o *owing) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// used checks what the ledger counts, and how many slots are taken.
func (o *owing) used(when string, tokens, millionths, slots int64) {
	o.Helper()
	got := map[string]int64{}
	for _, upstream := range []string{"llm", book.Budgets} {
		all, err := o.ledger.View().Usage(o.Context(), upstream, "")
		if err != nil {
			o.Fatal(err)
		}
		for _, u := range all {
			got[u.Pool.Name] = u.Windows[0].Used
		}
	}
	if got["tokens"] != tokens || got["all"] != millionths || got["at_once"] != slots {
		o.Errorf("%s: %v, want %d tokens, %d millionths and %d slots", when, got, tokens, millionths, slots)
	}
}

// has checks what the log says, and does not say.
func (o *owing) has(want, not string, more ...string) {
	o.Helper()
	for _, text := range append(more, want) {
		if !strings.Contains(o.log.String(), text) {
			o.Errorf("the log lacks %s:\n%s", text, &o.log)
		}
	}
	if not != "" && strings.Contains(o.log.String(), not) {
		o.Errorf("the log has %s:\n%s", not, &o.log)
	}
}

const notYet, late, final, still = "calls are not settled yet", "settled late", `msg="call not settled"`, "calls are still not settled"

// A call whose ledger is out when its answer ends is settled when the ledger is back: units, money, slots, and the
// caller's budget. Money is a thousandth of a dollar a token.
func TestOutageAtTheEndOfAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ max, tokens int64 }{"units come back": {1000, 700}, "units are added": {300, 700}} {
		t.Run(name, func(t *testing.T) {
			owes(t, func(o *owing) {
				budget := NewBudget(0)
				ctx, record := charged.With(WithBudget(o.Context(), budget))
				o.store.out.Store(true)
				o.ask(ctx, "llm.example.com", int(c.max))
				o.used("out", c.max, c.max*1000, 1)
				o.sleep(time.Minute)
				if n := o.store.asked.Load(); n < 5 || n > 12 {
					o.Errorf("it was tried %d times in a minute", n)
				}
				o.has(notYet, final, errOut.Error())
				if budget.Spent() != c.max || strings.Count(o.log.String(), notYet) != 1 {
					o.Errorf("the budget has %d\n%s", budget.Spent(), &o.log)
				}
				o.store.out.Store(false)
				o.sleep(longestPause)
				o.used("back", c.tokens, c.tokens*1000, 0)
				o.has(late, final, "calls=1")
				units := record.Units()
				if spent := budget.Pools()["budgets/all"]; budget.Spent() != c.tokens || spent != c.tokens*1000 ||
					units[quota.Pool{Upstream: "llm", Account: quota.DefaultAccount, Name: "tokens"}] != c.tokens {
					o.Errorf("the budget has %d and %d millionths, the record %v", budget.Spent(), spent, units)
				}
				asked := o.store.asked.Load()
				o.sleep(time.Hour)
				if o.store.asked.Load() != asked || o.owed.timer != nil {
					o.Error("it goes on")
				}
			})
		})
	}
}

// If the pools were settled and the bill was not, the bill alone is missing.
func TestOutageOfTheBill(t *testing.T) {
	owes(t, func(o *owing) {
		o.store.only.Store(book.Budgets)
		o.store.out.Store(true)
		o.ask(o.Context(), "llm.example.com", 300)
		if err := o.Flush(o.Context()); !errors.Is(err, quota.ErrOutage) {
			o.Error(err)
		}
		o.has(`missing="budgets/all +0.40 USD"`, "", `remedy="ingestor quota adjust budgets/all '0.40 USD' --reason 'not settled' --ledger sqlite:l.db"`)
		o.used("out", 700, 300_000, 1)
		o.store.out.Store(false)
		o.sleep(longestPause)
		o.used("back", 700, 700_000, 0)
	})
}

// If the store settles and only its reply is lost, that counts once.
func TestOutageOfTheReply(t *testing.T) {
	owes(t, func(o *owing) {
		budget := NewBudget(0)
		o.store.deaf.Store(true)
		o.ask(WithBudget(o.Context(), budget), "llm.example.com", 300)
		o.used("settled", 700, 300_000, 1)
		o.sleep(time.Second)
		o.store.deaf.Store(false)
		o.sleep(longestPause)
		o.used("heard", 700, 700_000, 0)
		if budget.Spent() != 700 || budget.Pools()["budgets/all"] != 700_000 {
			o.Errorf("the budget has %v", budget.Pools())
		}
	})
}

// A call that was not sent is released late, as well.
func TestOutageBeforeARelease(t *testing.T) {
	owes(t, func(o *owing) {
		o.answer = func(r *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(r.Context()).GetConn("llm.example.com:443")
			return nil, errOut
		}
		budget := NewBudget(0)
		o.store.out.Store(true)
		o.ask(WithBudget(o.Context(), budget), "llm.example.com", 300)
		o.used("out", 300, 300_000, 1)
		if err := o.Flush(o.Context()); !errors.Is(err, quota.ErrOutage) || !strings.Contains(err.Error(), "(1)") {
			o.Error(err)
		}
		o.has(`missing="budgets/all -0.30 USD, llm/tokens -300"`, "", "ingestor quota adjust llm/tokens -300 --reason")
		o.store.out.Store(false)
		if err := o.Flush(o.Context()); err != nil {
			o.Error(err)
		}
		o.used("back", 0, 0, 0)
		if budget.Spent() != 0 {
			o.Errorf("the budget has %d", budget.Spent())
		}
	})
}

// A forgotten or moved ledger of one upstream does not keep others from being settled. After an hour, and if there
// is no receipt any more, a call is given up.
func TestOutageOfOneUpstream(t *testing.T) {
	owes(t, func(o *owing) {
		o.store.only.Store("other")
		o.store.out.Store(true)
		o.ask(o.Context(), "other.example.com", 30)
		o.ask(o.Context(), "other.example.com", 30)
		o.store.only.Store("")
		o.ask(o.Context(), "llm.example.com", 300)
		o.store.only.Store("other")
		o.sleep(longestPause)
		o.used("beside it", 700, 700_000, 1) // slots are still out
		o.sleep(quota.ReceiptLife)
		if n := strings.Count(o.log.String(), `missing="other/tokens +670"`); n != 2 {
			o.Errorf("%d calls are given up:\n%s", n, &o.log)
		}
	})
	owes(t, func(o *owing) {
		o.store.out.Store(true)
		o.ask(o.Context(), "llm.example.com", 300)
		o.store.out.Store(false)
		o.store.gone.Store(true)
		o.sleep(longestPause)
		o.has(final, late, "no receipt", `missing="budgets/all +0.40 USD, llm/tokens +400"`)
		o.used("no receipt", 300, 300_000, 0)
		if len(o.owed.list) > 0 || o.owed.timer != nil {
			o.Error("it goes on")
		}
	})
}

// What is kept is bounded. A call beyond the bound is logged at once.
func TestOutageOfManyCalls(t *testing.T) {
	owes(t, func(o *owing) {
		o.store.out.Store(true)
		for range mostOwed {
			o.ask(o.Context(), "llm.example.com", 10)
		}
		o.has(notYet, final)
		o.ask(o.Context(), "llm.example.com", 10)
		o.has(`missing="budgets/all +0.69 USD, llm/tokens +690"`, "")
		if err := o.Flush(o.Context()); !errors.Is(err, quota.ErrOutage) || strings.Count(o.log.String(), final) != 1 || strings.Count(o.log.String(), still) != 1 {
			o.Error(err)
		}
		o.has("calls=4096", "", fmt.Sprintf("llm/tokens +%d", mostOwed*690))
		o.store.out.Store(false)
		o.sleep(10 * time.Minute) // the ledger tries the slot of the last one again by itself
		o.used("back", mostOwed*700+10, (mostOwed*700+10)*1000, 0)
	})
}

// Flush ends with its context, though a pass hangs.
func TestFlushInAnOutageEnds(t *testing.T) {
	owes(t, func(o *owing) {
		o.store.out.Store(true)
		o.ask(o.Context(), "llm.example.com", 300)
		o.owed.turn <- struct{}{} // a pass hangs
		ctx, cancel := context.WithTimeout(o.Context(), time.Second)
		defer cancel()
		if err := o.Flush(ctx); !errors.Is(err, quota.ErrOutage) {
			o.Error(err)
		}
		o.has(still, late)
		<-o.owed.turn
		o.store.out.Store(false)
		if err := o.Flush(o.Context()); err != nil {
			o.Error(err)
		}
		o.used("back", 700, 700_000, 0)
	})
}

// While calls are not settled, a report does not make their units those of others.
func TestReportsInAnOutage(t *testing.T) {
	owes(t, func(o *owing) {
		left := "999300"
		o.answer = func(*http.Request) (*http.Response, error) {
			resp := answers("700")
			resp.Header.Set("X-Left", left)
			return resp, nil
		}
		o.store.out.Store(true)
		o.ask(o.Context(), "llm.example.com", 300)
		_ = o.ledger.Flush(o.Context())
		o.used("out", 300, 300_000, 1)
		o.store.out.Store(false)
		o.sleep(longestPause)
		_ = o.ledger.Flush(o.Context())
		o.used("back", 700, 700_000, 0)
		left = "998600"
		o.ask(o.Context(), "llm.example.com", 300)
		if err := o.Flush(o.Context()); err != nil {
			o.Error(err)
		}
		o.used("the next call", 1400, 1_400_000, 0)
		left = "997000" // others have spent 900
		o.ask(o.Context(), "llm.example.com", 300)
		if err := o.Flush(o.Context()); err != nil {
			o.Error(err)
		}
		o.used("others", 3000, 2_100_000, 0)
	})
}

// A log may send its lines over the same transport.
func TestOutageThatIsLoggedOverTheTransport(t *testing.T) {
	owes(t, func(o *owing) {
		o.store.out.Store(true)
		o.ask(o.Context(), "llm.example.com", 300)
		o.store.out.Store(false)
		o.set.Logger = slog.New(shipped{func() { o.owed.has("llm", quota.DefaultAccount) }})
		if err := o.Flush(o.Context()); err != nil {
			o.Error(err)
		}
	})
}

type shipped struct{ send func() }

func (shipped) Enabled(context.Context, slog.Level) bool    { return true }
func (h shipped) Handle(context.Context, slog.Record) error { h.send(); return nil }
func (h shipped) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h shipped) WithGroup(string) slog.Handler             { return h }
