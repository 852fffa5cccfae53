package recorded

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// Outcome is what became of a call.
type Outcome struct {
	Notes []Note            // by kind, and then by pool
	Pools []quota.PageState // that the call charges, as they are now; nil if it has no price
	Keyed bool              // the request was sent with the key of its upstream
	Err   error             // that the caller got instead of the answer
}

// Kind is the kind of a [Note].
type Kind string

// The kinds of notes, in their order.
const (
	Reserved Kind = "reserved" // Charges, before the call
	Answered Kind = "answered" // Status
	Settled  Kind = "settled"  // Charges: what they have cost
	Ended    Kind = "ended"    // Charges that count when the answer ends
	Others   Kind = "others"   // Charges that others have spent since Since
	Limited  Kind = "limited"  // Charges: the upstream's limit until Until
	Shut     Kind = "shut"     // the pools of Charges, until Until or for For
	Told     Kind = "told"     // the learned limits of Charges, of a refusal that names the wait For, or 0
)

// Note is one thing that the ledger did.
type Note struct {
	Kind    Kind
	Method  string // Reserved
	Charges []Charge
	Status  int
	Since   time.Time
	Until   time.Time
	For     time.Duration
	Ruled   bool // Told: a rule of the price book is about the answer
}

// Charge is a number of units of a pool.
type Charge struct {
	Pool  quota.Pool
	Units int64
}

// kinds is the order of notes.
var kinds = []Kind{Reserved, Answered, Shut, Told, Settled, Ended, Limited, Others}

// sort orders notes, because calls are settled and reports written behind the caller's back.
func (o *Outcome) sort() {
	pool := func(n *Note) string {
		if len(n.Charges) == 0 {
			return ""
		}
		return n.Charges[0].Pool.String()
	}
	slices.SortStableFunc(o.Notes, func(a, b Note) int {
		return cmp.Or(slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind), strings.Compare(pool(&a), pool(&b)))
	})
}

// witness is a store that notes what it is asked.
type witness struct {
	*memstore.Store
	mu      sync.Mutex // calls are settled behind their callers' backs
	outcome *Outcome
	charges []quota.Charge // of the last reservation
}

// begin begins the notes of a call.
func (w *witness) begin(o *Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcome, w.charges = o, nil
}

func (w *witness) note(n Note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcome.Notes = append(w.outcome.Notes, n)
}

func (w *witness) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	asked := func(c quota.Charge) bool { return c.Pool.Upstream == r.Charges[0].Pool.Upstream }
	w.charges = append(slices.DeleteFunc(w.charges, asked), r.Charges...) // beside those of its budgets
	v, err := w.Store.Reserve(ctx, r)
	if v.Allowed {
		n := Note{Kind: Reserved, Method: r.Labels.Method}
		for _, c := range r.Charges {
			n.Charges = append(n.Charges, Charge{c.Pool, c.Units})
		}
		w.note(n)
	}
	return v, err
}

func (w *witness) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	s, err := w.Store.Settle(ctx, t, units)
	if err == nil && !s.Repeat {
		n := Note{Kind: Settled}
		for _, c := range w.charges {
			if cost, named := units[c.Pool.Name]; c.Pool.Upstream == t.Upstream && (named || units == nil) {
				n.Charges = append(n.Charges, Charge{c.Pool, cost})
			}
		}
		w.note(n)
	}
	return s, err
}

func (w *witness) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	units, err := w.Store.Record(ctx, r)
	for _, c := range r.Charges {
		switch cost := units[c.Pool.Name]; {
		case cost == 0:
		case r.Labels.Method == quota.Others:
			w.note(Note{Kind: Others, Charges: []Charge{{c.Pool, cost}}, Since: r.At})
		default:
			w.note(Note{Kind: Ended, Charges: []Charge{{c.Pool, cost}}})
		}
	}
	return units, err
}

func (w *witness) Block(ctx context.Context, b quota.BlockRequest) error {
	n := Note{Kind: Shut, Until: b.Until, For: b.For}
	for _, c := range b.Charges {
		n.Charges = append(n.Charges, Charge{Pool: c.Pool})
	}
	w.note(n)
	return w.Store.Block(ctx, b)
}

// observe notes the limits that answers have reported.
func (w *witness) observe(e quota.Event) {
	if e.Kind == quota.EventLimit {
		w.note(Note{Kind: Limited, Charges: []Charge{{e.Pool, e.Units}}, Until: e.Until})
	}
}
