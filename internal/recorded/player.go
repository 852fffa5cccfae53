package recorded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// placeholder is the key of every upstream.
const placeholder = "key-of-no-upstream"

// Player makes recorded calls. Its ledger is new and in memory.
type Player struct {
	book      *quota.Book
	clock     *quota.SimClock
	ledger    *witness
	quotas    *quota.Ledger
	transport *meter.Transport
	answer    *Message // nil: the request must not be sent
	faults    []error
}

// New returns a player of the calls of a price book, with a clock that begins at start.
func New(b *quota.Book, start time.Time) (*Player, error) {
	clock := quota.NewSimClock(start)
	p := &Player{book: b, clock: clock, ledger: &witness{Store: memstore.New(&memstore.Options{Clock: clock})}}
	ledger, err := quota.New(b, p.ledger, &quota.Options{Clock: clock, Observer: quota.ObserverFunc(p.ledger.observe)})
	if err != nil {
		return nil, err
	}
	p.quotas = ledger
	keys := map[string]meter.KeySource{}
	for name, u := range b.Upstreams {
		if u.Key.Header == "" {
			continue
		}
		keys[name] = meter.Key(placeholder)
		if u.AnyAccount {
			keys[name+"@*"] = meter.Key(placeholder)
		}
		for _, account := range u.Accounts {
			if account != quota.DefaultAccount {
				keys[name+"@"+account] = meter.Key(placeholder)
			}
		}
	}
	p.transport, err = meter.New(ledger, &meter.Options{Base: p, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	return p, err
}

// Advance moves the clock.
func (p *Player) Advance(d time.Duration) { p.clock.Advance(d) }

// Call makes a call that gets this answer. Without an answer, it must be refused before it
// is sent. An error is a fault of the recording.
func (p *Player) Call(ctx context.Context, req *http.Request, answer *Message) (*Outcome, error) {
	out := &Outcome{}
	p.ledger.begin(out)
	p.answer, p.faults = answer, nil
	watched, record := charged.With(ctx)
	resp, err := p.transport.RoundTrip(req.WithContext(watched))
	if err == nil {
		p.ledger.note(Note{Kind: Answered, Status: resp.StatusCode})
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	out.Err = err
	err = errors.Join(p.faults...)
	if failed := p.transport.Flush(ctx); err == nil {
		err = failed
	}
	for _, t := range record.Told() {
		p.ledger.note(Note{Kind: Told, Charges: []Charge{{Pool: t.Pool}}, For: t.Named, Ruled: t.Ruled})
	}
	out.sort()
	if p.ledger.charges != nil && err == nil {
		if out.Pools, err = p.ledger.Look(ctx, p.ledger.charges); err == nil {
			err = p.limits(ctx, out.Pools)
		}
	}
	return out, err
}

// limits puts the limits that hold now in place of those that held before the call: its answer may
// have told others.
func (p *Player) limits(ctx context.Context, all []quota.PageState) error {
	for _, s := range all {
		usage, err := p.quotas.View().Usage(ctx, s.Pool.Upstream, s.Pool.Account)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(usage, func(u quota.Usage) bool { return u.Pool == s.Pool })
		for j := range s.Windows {
			if i >= 0 && j < len(usage[i].Windows) {
				s.Windows[j].Limit = usage[i].Windows[j].Limit
			}
		}
	}
	return nil
}

// RoundTrip gives the recorded answer.
func (p *Player) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	if p.answer == nil {
		p.faults = append(p.faults, fmt.Errorf("%s %s was sent, and there is no answer to it", req.Method, req.URL.Path))
		return nil, errors.New("no answer is recorded")
	}
	p.sent(req)
	return p.answer.response(req), nil
}

// sent notes whether a request has the key of its upstream.
func (p *Player) sent(req *http.Request) {
	m := p.book.Match(req.Method, req.URL.Host, req.URL.EscapedPath())
	p.ledger.outcome.Keyed = m.Upstream != nil && m.Upstream.Key.Header != "" && req.Header.Get(m.Upstream.Key.Header) == placeholder
}
