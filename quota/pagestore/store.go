package pagestore

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Options are what [New] can be told; nil is legal.
type Options struct {
	// Combine puts callers that wait for a transaction into the next one together,
	// which pays where a commit is slow. It is how long they wait for the one under
	// way at most. Zero: callers take turns.
	Combine time.Duration
	// Deadline is the longest time of a transaction, for a backend over a network. With
	// it and Combine, transactions run apart from their callers: one at a time for each
	// account and for each family, which the backend locks in Load. A caller that leaves,
	// or has waited for Combine, gets an error. If its transaction has begun, its charge
	// may stand under its id. A grant under a new id to a caller that left is released
	// behind it. Zero: a caller leads the transaction and waits for its end.
	Deadline time.Duration
	// Name is the data's, for errors.
	Name string
	// Births remembers pages beyond the data, so that a loss is noticed; nil trusts
	// what it finds.
	Births *storekit.Births
	// NoFamilies says what to do instead of keeping a page per key; "" keeps them.
	NoFamilies string
}

// Store is a [quota.Store] over a backend. It is safe for concurrent use.
type Store struct {
	backend Backend
	options Options
	queues  queues

	mu  sync.Mutex // of the two below; with Combine the leader of the queue has them
	own job
	work
}

var (
	_ quota.Store     = (*Store)(nil)
	_ quota.KeyLister = (*Store)(nil)
)

// New returns a store over a backend that nobody else uses.
func New(b Backend, o *Options) *Store {
	s := &Store{backend: b, options: *cmp.Or(o, &Options{})}
	s.work = *s.newWork()
	s.queues.one.work, s.queues.open = &s.work, make(map[queueKey]*queue)
	return s
}

func (s *Store) newWork() *work {
	var seed [32]byte
	crand.Read(seed[:])
	return &work{births: births{s.options.Births}, nonces: rand.NewChaCha8(seed)}
}

// job is one call of a store, on its way through a transaction.
type job struct {
	do      func(*work, Tx, *job) error // an expression, not a closure: those are allocated
	request quota.Request
	block   quota.BlockRequest
	token   quota.Token
	units   quota.Units
	tokens  []quota.Token // of slots
	ended   bool          // their calls have
	held    []bool
	beside  func(Tx) error // see Beside

	verdict    quota.Verdict
	settlement quota.Settlement
	recorded   quota.Units
	err        error

	wake     chan struct{} // while it waits: it leads now, or is done
	done     bool
	left     bool // its caller has, while it was in a transaction
	panicked any  // what its caller must panic with
}

// Reserve implements [quota.Store].
func (s *Store) Reserve(ctx context.Context, r quota.Request) (v quota.Verdict, err error) {
	if err = s.check(r.CheckAllButNames(), r.Charges); err == nil {
		err = s.call(ctx, func(j *job) { j.do, j.request = (*work).reserve, r }, func(j *job) { v = j.verdict })
	}
	return v, err
}

// Settle implements [quota.Store].
func (s *Store) Settle(ctx context.Context, t quota.Token, units quota.Units) (done quota.Settlement, err error) {
	err = s.call(ctx, func(j *job) { j.do, j.token, j.units = (*work).settle, t, units }, func(j *job) { done = j.settlement })
	return done, err
}

// Slots implements [quota.Store].
func (s *Store) Slots(ctx context.Context, tokens []quota.Token, done bool) (held []bool, err error) {
	err = s.call(ctx, func(j *job) {
		j.do, j.tokens, j.ended, j.held = (*work).slots, tokens, done, make([]bool, len(tokens))
	}, func(j *job) { held = j.held })
	return held, err
}

// Record implements [quota.Store].
func (s *Store) Record(ctx context.Context, r quota.Request) (recorded quota.Units, err error) {
	if err = s.check(r.CheckRecord(), r.Charges); err == nil {
		err = s.call(ctx, func(j *job) { j.do, j.request = (*work).record, r }, func(j *job) { recorded = j.recorded })
	}
	return recorded, err
}

// Block implements [quota.Store].
func (s *Store) Block(ctx context.Context, b quota.BlockRequest) error {
	if err := b.Check(); err != nil {
		return err
	}
	return s.call(ctx, func(j *job) { j.do, j.block = (*work).shut, b }, func(*job) {})
}

// Beside runs do in a transaction, perhaps together with other calls of the store. It must not read
// or write pages.
func (s *Store) Beside(ctx context.Context, do func(Tx) error) error {
	return s.call(ctx, func(j *job) { j.do, j.beside = (*work).runBeside, do }, func(*job) {})
}

func (w *work) runBeside(tx Tx, j *job) error { return w.wrote(j.beside(tx)) }

// call runs a job that fill fills in. If it succeeds, tell takes what it has found.
func (s *Store) call(ctx context.Context, fill, tell func(*job)) error {
	j, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.release(j)
	fill(j)
	if err = s.run(ctx, j); err == nil {
		tell(j)
	}
	return err
}

// Look implements [quota.Store].
func (s *Store) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := s.check(nil, charges); err != nil {
		return nil, err
	}
	if s.options.Combine == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	expected := make([]storekit.Birth, len(charges))
	for i := range charges {
		var err error
		if expected[i], err = s.births.expect(charges[i].Pool, time.Time{}); err != nil {
			return nil, err
		}
	}
	tx, err := s.backend.View(ctx)
	if err != nil {
		return nil, err
	}
	var states []quota.PageState
	var found []*Entry
	if s.options.Combine != 0 {
		err = tx.Load(&Scope{Charges: charges})
	}
	if err == nil {
		states, found, err = s.look(tx, charges, expected)
	}
	if err = tx.End(err); err == nil {
		err = s.births.remember(ctx, found)
	}
	if err != nil {
		return nil, err
	}
	return states, nil
}

func (s *Store) look(tx Tx, charges []quota.Charge, expected []storekit.Birth) ([]quota.PageState, []*Entry, error) {
	states, found := make([]quota.PageState, len(charges)), make([]*Entry, len(charges))
	for i := range charges {
		e, err := find(tx, &charges[i].Pool)
		if err == nil {
			err = s.births.check(e, expected[i], tx.Now(), false)
		}
		if err != nil {
			return nil, nil, err
		}
		found[i] = e
		if states[i], err = describe(tx.Now(), &charges[i], e.Page); err != nil {
			return nil, nil, err
		}
		if !states[i].Blocked.IsZero() && e.Page.Shut(e.Page.Latest) { // else a price book shuts it
			states[i].Reason = e.Reason
		}
	}
	return states, found, nil
}

func find(tx Tx, p *quota.Pool) (*Entry, error) {
	if p.Key == "" {
		return tx.Entry(p, false)
	}
	return findMember(tx, p, p.Key)
}

// findMember finds the page of a key in the family or keyed pool p.
func findMember(tx Tx, p *quota.Pool, key string) (*Entry, error) {
	f, err := tx.Family(p)
	if err != nil {
		return nil, err
	}
	e, err := tx.Member(f, key)
	if err == nil {
		e.Family = f
	}
	return e, err
}

// Spend implements [quota.Store].
func (s *Store) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if s.options.Combine == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	all, err := s.backend.Spend(ctx, q)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, quota.Spent.Compare)
	return all, nil
}

// Keys implements [quota.KeyLister].
func (s *Store) Keys(ctx context.Context, p quota.Pool, most int) ([]string, int, error) {
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	if err := p.Check(); err != nil {
		return nil, 0, err
	}
	if s.options.Combine == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	return s.backend.Keys(ctx, p, most)
}

// Close waits for the transactions under way. With Combine, it fails the callers that wait, and
// later ones. A store whose callers take turns has nothing to close.
func (s *Store) Close() {
	if s != nil {
		s.queues.close()
	}
}

// ready returns an error if the store cannot be used, or if ctx has ended.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.backend == nil {
		return quota.BadInput("this store was not made by its package's New or Open")
	}
	return ctx.Err()
}

// check returns what is wrong with a request, or with the families of its charges.
func (s *Store) check(wrong error, charges []quota.Charge) error {
	for i := range charges {
		if p := &charges[i].Pool; wrong == nil && p.Name == "" && s != nil && s.options.NoFamilies != "" {
			wrong = quota.BadInput("%s: %s", p, s.options.NoFamilies)
		}
	}
	return wrong
}

// begin returns a job to fill in. If callers take turns, it waits for the caller's turn.
func (s *Store) begin(ctx context.Context) (*job, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if s.options.Combine != 0 {
		return new(job), nil
	}
	s.mu.Lock()
	return &s.own, nil
}

// release ends the caller's turn, also after a panic. It keeps no data of the caller.
func (s *Store) release(j *job) {
	if j == &s.own {
		j.request.Charges, j.block.Charges, j.units, j.tokens, j.held, j.beside = nil, nil, nil, nil, nil, nil
		s.mu.Unlock()
	}
}

func (s *Store) run(ctx context.Context, j *job) error {
	if s.options.Combine != 0 {
		return s.combine(ctx, j)
	}
	tx, err := s.backend.Begin(ctx, 0)
	if err != nil {
		return err
	}
	s.work.begin(tx, nil)
	if err = j.do(&s.work, tx, j); s.work.broken != nil {
		return tx.End(s.work.broken)
	}
	if failed := tx.End(nil); failed != nil {
		return failed
	}
	if err == nil {
		err = s.births.remember(ctx, s.saved)
	}
	return err
}

// work is the state of the current transaction. The next one reuses it.
type work struct {
	batch   []*job // that share the transaction
	now     window.Instant
	entries []*Entry
	units   []int64 // what is recorded or reserved, by charge
	pools   []string
	pool    quota.Pool // that a backend is asked for
	nonces  *rand.ChaCha8
	scope   Scope
	births  births
	saved   []*Entry // entries whose births must be remembered
	broken  error    // something could not be written: the transaction must not be committed
}

// begin begins the next transaction. The transaction is broken if err is not nil.
func (w *work) begin(tx Tx, err error) {
	if w.broken, w.saved = err, w.saved[:0]; err == nil {
		w.now = window.At(tx.Now())
	}
}

// wrote notes the error of a write, which breaks the transaction.
func (w *work) wrote(err error) error {
	if err != nil {
		w.broken = err
	}
	return err
}

// newNonce returns a random nonce, so that callers cannot guess it.
func (w *work) newNonce() (nonce quota.Nonce) {
	binary.LittleEndian.PutUint64(nonce[:8], w.nonces.Uint64())
	binary.LittleEndian.PutUint64(nonce[8:], w.nonces.Uint64())
	return nonce
}
