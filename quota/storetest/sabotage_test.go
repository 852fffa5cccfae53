package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// A suite that cannot fail is worth nothing. Each sabotage is a store with one
// lie, or a harness with one; the suite runs on it in a process of its own, and the
// subtest that is named must fail.
var sabotages = map[string]struct {
	caught  string // by this subtest
	alone   bool   // and by no other
	liar    func(clock quota.Clock, s quota.Store) quota.Store
	harness func(h *storetest.Harness)
}{
	"grants_one_more":            {caught: "never_over", liar: func(_ quota.Clock, s quota.Store) quota.Store { return &grantsOneMore{Store: s} }},
	"races":                      {caught: "never_over", liar: func(_ quota.Clock, s quota.Store) quota.Store { return looksFirst{s} }},
	"takes_what_it_refused":      {caught: "all_or_nothing", liar: func(_ quota.Clock, s quota.Store) quota.Store { return takesRefused{s} }},
	"retry_after_1us_early":      {caught: "honest_retry_after", liar: early(time.Microsecond)},
	"retry_after_1us_late":       {caught: "honest_retry_after", liar: early(-time.Microsecond)},
	"the_model_sees_1us_late":    {caught: "model", liar: early(-time.Microsecond)},
	"one_second_late":            {caught: "bounded_lateness", liar: early(-time.Second)},
	"impossible_may_wait":        {caught: "impossible_is_not_throttled", liar: func(_ quota.Clock, s quota.Store) quota.Store { return patient{s} }},
	"keeps_no_receipts":          {caught: "once", liar: func(_ quota.Clock, s quota.Store) quota.Store { return forgetful{s} }},
	"the_model_sees_no_receipts": {caught: "model", liar: func(_ quota.Clock, s quota.Store) quota.Store { return forgetful{s} }},
	"settles_every_time":         {caught: "once", liar: func(_ quota.Clock, s quota.Store) quota.Store { return settlesAgain{s} }},
	"says_it_gave_back":          {caught: "settle_tells_the_truth", liar: func(_ quota.Clock, s quota.Store) quota.Store { return boasts{s} }},
	"the_model_sees_the_boast":   {caught: "model", liar: func(_ quota.Clock, s quota.Store) quota.Store { return boasts{s} }},
	"starts_anew_when_stepped":   {caught: "time_only_moves_forward", liar: func(c quota.Clock, s quota.Store) quota.Store { return &amnesiac{Store: s, clock: c} }},
	"charges_bad_input":          {caught: "bad_input_changes_nothing", liar: func(_ quota.Clock, s quota.Store) quota.Store { return lax{s} }},
	"ignores_cancelled":          {caught: "bad_input_changes_nothing", liar: func(_ quota.Clock, s quota.Store) quota.Store { return deaf{s} }},
	"never_opens":                {caught: "blocks_heal", liar: func(_ quota.Clock, s quota.Store) quota.Store { return stubborn{s} }},
	"counts_no_spend":            {caught: "spend", alone: true, liar: func(_ quota.Clock, s quota.Store) quota.Store { return nameless{s} }},
	"looks_twice":                {caught: "look", liar: func(_ quota.Clock, s quota.Store) quota.Store { return heavyHanded{s} }},
	"ignores_the_past":           {caught: "record", liar: func(_ quota.Clock, s quota.Store) quota.Store { return presentist{s} }},
	"adds_what_was_observed":     {caught: "at_least", liar: func(_ quota.Clock, s quota.Store) quota.Store { return gullible{s} }},
	"renews_no_slot":             {caught: "slots", liar: func(_ quota.Clock, s quota.Store) quota.Store { return &inert{Store: s, done: false} }},
	"gives_no_slot_back":         {caught: "slots", liar: func(_ quota.Clock, s quota.Store) quota.Store { return &inert{Store: s, done: true} }},
	"the_model_sees_the_inert":   {caught: "model", liar: func(_ quota.Clock, s quota.Store) quota.Store { return &inert{Store: s, done: false} }},
	"drains_too_fast":            {caught: "bucket_drains", liar: func(_ quota.Clock, s quota.Store) quota.Store { return leaky{s} }},
	"the_model_sees_it_drain":    {caught: "model", liar: func(_ quota.Clock, s quota.Store) quota.Store { return leaky{s} }},
	"takes_any_book":             {caught: "book_revisions", liar: func(_ quota.Clock, s quota.Store) quota.Store { return bookless{s} }},
	"touches_what_it_refuses":    {caught: "pages_that_disagree_about_the_time", liar: func(_ quota.Clock, s quota.Store) quota.Store { return touchy{s} }},
	"keeps_a_place_for_refused":  {caught: "members", liar: func(_ quota.Clock, s quota.Store) quota.Store { return touchy{s} }},
	"cuts_names_at_a_colon":      {caught: "names", liar: func(_ quota.Clock, s quota.Store) quota.Store { return curt{s} }},
	"one_page_for_all_keys":      {caught: "families", liar: func(_ quota.Clock, s quota.Store) quota.Store { return oneKey{s} }},
	"one_page_for_a_keyed_pool":  {caught: "keyed", liar: func(_ quota.Clock, s quota.Store) quota.Store { return noKeys{s} }},
	"the_model_sees_no_keys":     {caught: "model", liar: func(_ quota.Clock, s quota.Store) quota.Store { return noKeys{s} }},
	"never_full":                 {caught: "keyed", liar: func(_ quota.Clock, s quota.Store) quota.Store { return neverFull{s} }},
	"blocks_all_keys":            {caught: "keyed", liar: func(_ quota.Clock, s quota.Store) quota.Store { return blocksAll{s} }},
	"refuses_for_nothing":        {caught: "linearizable", alone: true, liar: func(_ quota.Clock, s quota.Store) quota.Store { return &takesThenLooks{Store: s} }},
	"settles_in_two_steps":       {caught: "linearizable", alone: true, liar: func(_ quota.Clock, s quota.Store) quota.Store { return &settlesInTwoSteps{Store: s} }},
	"the_model_sees_a_step_back": {caught: "model", liar: func(c quota.Clock, s quota.Store) quota.Store { return &amnesiac{Store: s, clock: c} }},
	"sweeps_ahead":               {caught: "model", liar: func(c quota.Clock, s quota.Store) quota.Store { return &sweepsAhead{Store: s, clock: c} }},
	"a_block_far_ahead_frees":    {caught: "model", liar: func(c quota.Clock, s quota.Store) quota.Store { return &blocksAhead{Store: s, clock: c} }},
	"forgets_members_in_a_leap":  {caught: "model", liar: func(c quota.Clock, s quota.Store) quota.Store { return &forgetsMembers{Store: s, clock: c} }},
	"misses_shorter_windows": {caught: "model", liar: func(c quota.Clock, s quota.Store) quota.Store {
		return &missesPages{Store: s, clock: c, seen: map[quota.Pool]sighting{}}
	}},
	"lets_no_other_process_open": {caught: "model", harness: deafToOthers},
	"opens_with_a_restart":       {caught: "model", harness: forgetsBlocks},
	"grows": {caught: "small", harness: func(h *storetest.Harness) {
		size := int64(0)
		h.Size = func(testing.TB, quota.Store) int64 { size += 10_000; return size }
	}},
	"shares_nothing":   {caught: "every_process", harness: func(h *storetest.Harness) { h.Share = anew(h) }},
	"survives_nothing": {caught: "restart", harness: func(h *storetest.Harness) { h.Reopen = anew(h) }},
}

// anew opens an empty store in the place of one.
func anew(h *storetest.Harness) func(testing.TB, quota.Store) quota.Store {
	return func(t testing.TB, _ quota.Store) quota.Store { return h.Open(t) }
}

const sabotageEnv = "STORETEST_SABOTAGE"

// TestSabotaged is what the other process runs.
func TestSabotaged(t *testing.T) {
	sabotage, ok := sabotages[os.Getenv(sabotageEnv)]
	if !ok {
		t.Skip("run by TestSuiteCatches")
	}
	clock := storetest.NewClock()
	h := storetest.Harness{
		Open: func(testing.TB) quota.Store {
			s := quota.Store(memstore.New(&memstore.Options{Clock: clock}))
			if sabotage.liar != nil {
				s = sabotage.liar(clock, s)
			}
			return s
		},
		SetClock:   clock.Move,
		Families:   true,
		Operations: 10_000, // so that chance hides no lie
	}
	if sabotage.harness != nil {
		sabotage.harness(&h)
	}
	storetest.Run(t, h)
}

func TestSuiteCatches(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, sabotage := range sabotages {
		t.Run(name, func(t *testing.T) {
			run := func(args ...string) (string, error) {
				cmd := exec.Command(exe, append(args, "-test.v", "-rapid.nofailfile", "-rapid.shrinktime=0s")...)
				cmd.Env = append(os.Environ(), sabotageEnv+"="+name)
				cmd.Dir = t.TempDir()
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			out, err := run("-test.run=^TestSabotaged$/^" + sabotage.caught + "$")
			if err == nil || !strings.Contains(out, "--- FAIL: TestSabotaged/"+sabotage.caught) {
				t.Errorf("%s does not catch it: %v\n%s", sabotage.caught, err, out)
			}
			if !sabotage.alone {
				return
			}
			out, err = run("-test.run=^TestSabotaged$", "-test.skip=^TestSabotaged$/^"+sabotage.caught+"$")
			if err != nil || !strings.Contains(out, "--- PASS: TestSabotaged/model") {
				t.Errorf("not only %s catches it: %v\n%s", sabotage.caught, err, out)
			}
		})
	}
}

// The liars. Each is a memory store with one method that does not keep a promise.

type grantsOneMore struct {
	quota.Store
	done bool
}

func (s *grantsOneMore) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if err == nil && !v.Allowed && !v.Blocked && !v.Impossible && !s.done {
		s.done = true
		_, err = s.Store.Record(ctx, r)
		v = quota.Verdict{Allowed: true, ID: v.ID, Pool: v.Pool, Window: v.Window, Used: v.Used + v.Units, Limit: v.Limit, At: v.At}
	}
	return v, err
}

// touchy charges nothing to the pages that refused.
type touchy struct{ quota.Store }

func (s touchy) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if err == nil && !v.Allowed {
		nothing := quota.Request{Charges: slices.Clone(r.Charges)}
		for i := range nothing.Charges {
			nothing.Charges[i].Units = 0
		}
		_, err = s.Store.Record(ctx, nothing)
	}
	return v, err
}

// curt knows a pool by what comes before a colon.
type curt struct{ quota.Store }

func (s curt) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	r.Charges = slices.Clone(r.Charges)
	for i := range r.Charges {
		name := &r.Charges[i].Pool.Name
		if before, _, cut := strings.Cut(*name, ":"); cut && before != "" {
			*name = before
		}
	}
	return s.Store.Reserve(ctx, r)
}

// looksFirst decides and charges in two steps.
type looksFirst struct{ quota.Store }

func (s looksFirst) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	pages, err := s.Look(ctx, r.Charges)
	if err != nil || len(pages[0].Windows) == 0 {
		return s.Store.Reserve(ctx, r)
	}
	if w := pages[0].Windows[0]; w.Used+r.Charges[0].Units <= w.Limit {
		time.Sleep(time.Millisecond)
		if _, err := s.Record(ctx, r); err != nil {
			return quota.Verdict{}, err
		}
		return quota.Verdict{Allowed: true, Used: w.Used + r.Charges[0].Units}, nil
	}
	return s.Store.Reserve(ctx, r)
}

type takesRefused struct{ quota.Store }

func (s takesRefused) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if err == nil && !v.Allowed {
		r.ID, r.Charges = "", r.Charges[:1]
		_, err = s.Record(ctx, r)
	}
	return v, err
}

type hasty struct {
	quota.Store
	by time.Duration
}

// early tells everybody to retry too early, or too late if by is negative.
func early(by time.Duration) func(quota.Clock, quota.Store) quota.Store {
	return func(_ quota.Clock, s quota.Store) quota.Store { return hasty{s, by} }
}

func (s hasty) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if !v.Allowed && !v.Impossible && v.RetryAfter > s.by {
		v.RetryAfter, v.RetryAt = v.RetryAfter-s.by, v.RetryAt.Add(-s.by)
	}
	return v, err
}

type patient struct{ quota.Store }

func (s patient) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if v.Impossible {
		v.Impossible, v.RetryAfter, v.RetryAt = false, time.Hour, v.At.Add(time.Hour)
	}
	return v, err
}

type forgetful struct{ quota.Store }

func (s forgetful) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if r.ID == "" {
		return s.Store.Reserve(ctx, r)
	}
	v, err := s.Store.Reserve(ctx, r)
	if v.Repeat {
		id := r.ID
		r.ID = ""
		v, err = s.Store.Reserve(ctx, r)
		v.ID = id
	}
	return v, err
}

type settlesAgain struct{ quota.Store }

func (s settlesAgain) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	got, err := s.Store.Settle(ctx, t, units)
	got.Repeat = false
	return got, err
}

type boasts struct{ quota.Store }

func (s boasts) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	got, err := s.Store.Settle(ctx, t, units)
	got.Back, got.Left = got.Back+got.Left, 0
	return got, err
}

// amnesiac takes a clock that steps back for a new beginning.
type amnesiac struct {
	quota.Store
	clock quota.Clock
	last  time.Time
}

func (s *amnesiac) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	now := s.clock.Now()
	if now.Before(s.last) {
		s.Store = memstore.New(&memstore.Options{Clock: s.clock})
	}
	s.last = now
	return s.Store.Reserve(ctx, r)
}

// lax charges what is good of a request that is bad.
type lax struct{ quota.Store }

func (s lax) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if err != nil && len(r.Charges) == 2 {
		_, _ = s.Store.Reserve(ctx, quota.Request{Charges: r.Charges[:1]})
	}
	return v, err
}

type deaf struct{ quota.Store }

func (s deaf) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	return s.Store.Record(context.WithoutCancel(ctx), r)
}

type stubborn struct{ quota.Store }

func (s stubborn) Block(ctx context.Context, b quota.BlockRequest) error {
	if b.Open {
		return nil
	}
	return s.Store.Block(ctx, b)
}

type nameless struct{ quota.Store }

func (s nameless) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	r.Labels.Region = ""
	return s.Store.Reserve(ctx, r)
}

// heavyHanded leaves a page behind where it looks.
type heavyHanded struct{ quota.Store }

func (s heavyHanded) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	for _, c := range charges {
		c.Units = 0
		_, _ = s.Reserve(ctx, quota.Request{Charges: []quota.Charge{c}})
	}
	return s.Store.Look(ctx, charges)
}

type presentist struct{ quota.Store }

func (s presentist) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	r.At = time.Time{}
	return s.Store.Record(ctx, r)
}

// gullible adds up what several processes have seen of the same units.
type gullible struct{ quota.Store }

func (s gullible) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	r.AtLeast = false
	return s.Store.Record(ctx, r)
}

// inert renews no slots, or gives none back.
type inert struct {
	quota.Store
	done bool
}

func (s *inert) Slots(ctx context.Context, tokens []quota.Token, done bool) ([]bool, error) {
	if done != s.done {
		return s.Store.Slots(ctx, tokens, done)
	}
	held := make([]bool, len(tokens))
	for i := range held {
		held[i] = true
	}
	return held, nil
}

// bookless takes every price book for revision 7.
type bookless struct{ quota.Store }

func (s bookless) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	charges := append([]quota.Charge(nil), r.Charges...)
	for i := range charges {
		charges[i].Revision = 7
	}
	r.Charges = charges
	return s.Store.Reserve(ctx, r)
}

type oneKey struct{ quota.Store }

func (s oneKey) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	charges := append([]quota.Charge(nil), r.Charges...)
	for i := range charges {
		charges[i].Pool.Key = "everybody"
	}
	r.Charges = charges
	return s.Store.Reserve(ctx, r)
}
