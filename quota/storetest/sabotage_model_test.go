package storetest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// The liars that the moves of the model are for. Each is right as long as the clock
// only goes forward, nobody else is there, and the price book stays.

// empties takes from pools all that they have used.
func empties(ctx context.Context, s quota.Store, charges []quota.Charge) {
	pages, err := s.Look(ctx, charges)
	if err != nil {
		return
	}
	for i, page := range pages {
		for _, w := range page.Windows {
			if w.Used > 0 {
				c := charges[i]
				c.Units = -w.Used
				_, _ = s.Record(ctx, quota.Request{Charges: []quota.Charge{c}})
			}
		}
	}
}

// sweepsAhead sweeps the pages of a request that was refused when one of them was
// re-based, and does not move their time along: units are missing when the clock
// steps back again.
type sweepsAhead struct {
	quota.Store
	clock quota.Clock
	swept []quota.Charge
	at    time.Time
}

func (s *sweepsAhead) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	now := s.clock.Now()
	if now.Before(s.at) {
		empties(ctx, s.Store, s.swept)
		s.at = time.Time{}
	}
	v, err := s.Store.Reserve(ctx, r)
	if err == nil && !v.Allowed && v.Rebased && len(r.Charges) > 1 {
		s.swept, s.at = r.Charges, now
	}
	return v, err
}

// blocksAhead takes a block by a clock that is far ahead for proof that what was used
// has left.
type blocksAhead struct {
	quota.Store
	clock   quota.Clock
	charged time.Time
	freed   []quota.Charge
	at      time.Time
}

func (s *blocksAhead) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	now := s.clock.Now()
	if now.Before(s.at) {
		empties(ctx, s.Store, s.freed)
		s.at = time.Time{}
	}
	s.charged = now
	return s.Store.Reserve(ctx, r)
}

func (s *blocksAhead) Block(ctx context.Context, b quota.BlockRequest) error {
	if now := s.clock.Now(); now.Sub(s.charged) > 24*time.Hour {
		s.freed, s.at = b.Charges, now
	}
	return s.Store.Block(ctx, b)
}

// forgetsMembers starts a family anew when the clock has leapt.
type forgetsMembers struct {
	quota.Store
	clock   quota.Clock
	members quota.Store
	last    time.Time
}

func (s *forgetsMembers) pick(charges []quota.Charge) quota.Store {
	if charges[0].Pool.Key == "" {
		return s.Store
	}
	now := s.clock.Now()
	if s.members == nil || now.Sub(s.last) > 100*24*time.Hour {
		s.members = memstore.New(&memstore.Options{Clock: s.clock})
	}
	s.last = now
	return s.members
}

func (s *forgetsMembers) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	return s.pick(r.Charges).Reserve(ctx, r)
}

func (s *forgetsMembers) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	return s.pick(r.Charges).Record(ctx, r)
}

func (s *forgetsMembers) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	return s.pick(charges).Look(ctx, charges)
}

// missesPages goes by the windows of an older book: it takes a pool that nobody has
// charged for hours, and whose windows were made shorter since, for one that is lost.
type missesPages struct {
	quota.Store
	clock quota.Clock
	seen  map[quota.Pool]sighting
}

type sighting struct {
	at   time.Time
	span time.Duration
}

func (s *missesPages) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	now := s.clock.Now()
	for _, c := range r.Charges {
		before := s.seen[c.Pool]
		if gone := now.Sub(before.at); gone > 2*time.Hour && gone < before.span {
			var longest time.Duration
			for _, w := range c.Windows {
				longest = max(longest, w.Spec.Span())
			}
			if gone > longest {
				return quota.Verdict{}, &quota.ForgottenError{Pool: c.Pool, Born: before.at}
			}
		}
		for _, w := range c.Windows {
			before.span = max(before.span, w.Spec.Span())
		}
		s.seen[c.Pool] = sighting{now, before.span}
	}
	return s.Store.Reserve(ctx, r)
}

// deafToOthers lets no other process lift a block.
func deafToOthers(h *storetest.Harness) {
	h.Share = func(_ testing.TB, s quota.Store) quota.Store { return stubborn{s} }
}

// forgetsBlocks opens every pool with a restart.
func forgetsBlocks(h *storetest.Harness) {
	h.Reopen = func(_ testing.TB, s quota.Store) quota.Store { return restarted{s} }
}

type restarted struct{ quota.Store }

func (s restarted) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if r.Charges[0].Pool.Key == "" {
		_ = s.Store.Block(ctx, quota.BlockRequest{Charges: r.Charges, Open: true})
	}
	return s.Store.Reserve(ctx, r)
}

// leaky lets buckets drain a little faster than they do.
type leaky struct{ quota.Store }

func (s leaky) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	charges := slices.Clone(r.Charges)
	for i := range charges {
		charges[i].Windows = slices.Clone(charges[i].Windows)
		for j := range charges[i].Windows {
			if w := &charges[i].Windows[j]; w.Spec.Drains() {
				w.Spec.Rate++ // of a page that it lays out
			}
		}
	}
	r.Charges = charges
	return s.Store.Reserve(ctx, r)
}
