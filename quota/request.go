package quota

import (
	"time"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// ReceiptLife is how long a store keeps the receipt of a reservation. After it, a retry of
// the id is charged again, and settling returns [ErrNoReceipt]. A ledger renews the receipts
// of reservations that have slots, or whose price depends on the call, for as long as its
// process has the reservation: so calls may take longer. Every other receipt ends then, such as
// that of a caller over HTTP.
const ReceiptLife = time.Hour

// These are the limits of a request.
const (
	maxIDBytes  = 128
	maxName     = 128 // bytes of an upstream, an account, a pool or a key
	maxKeyBytes = 64  // longer keys of a family are hashed
	maxCharges  = book.MaxCharges
	maxWindows  = book.MaxWindows
	maxLabel    = 128 // bytes of a label
	maxReason   = 256 // bytes of a block's reason, without who gave it
	maxBlock    = book.MaxBlock
)

// Check returns an error if a request to reserve is invalid. Every store calls it first,
// so that bad input changes nothing.
func (r *Request) Check() error {
	for i := range r.Charges {
		if err := r.Charges[i].Pool.Check(); err != nil {
			return err
		}
	}
	return r.CheckAllButNames()
}

// CheckAllButNames is Check without the names of pools, for stores that call [Pool.Check]
// when they make a page.
func (r *Request) CheckAllButNames() error {
	if r.ID != "" && !r.Fresh && !validID(r.ID) {
		return BadInput("id %.40q must be 1 to %d printable bytes", r.ID, maxIDBytes)
	}
	if len(r.Charges) == 0 || len(r.Charges) > maxCharges {
		return BadInput("a reservation takes 1 to %d charges, not %d", maxCharges, len(r.Charges))
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		if c.Units < 0 || c.Units > window.MaxUnits {
			return BadInput("%s: units must be 0 to %d, not %d", c.Pool, window.MaxUnits, c.Units)
		}
		if err := c.check(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if first := r.Charges[0].Pool; c.Pool.Upstream != first.Upstream || c.Pool.Account != first.Account || (c.Pool.Name == "") != (first.Name == "") {
			return BadInput("%s and %s belong to two accounts; one reservation charges one", r.Charges[0].Pool, c.Pool)
		}
		for j := range i {
			if r.Charges[j].Pool.Name == c.Pool.Name { // also with another key: units are settled by the name
				return twice(r.Charges[j].Pool, c.Pool)
			}
		}
	}
	return r.Labels.check()
}

func twice(a, b Pool) error {
	switch {
	case a == b:
		return BadInput("%s is charged twice in one reservation; add the units up", b)
	case b.Name == "":
		return BadInput("%s and %s are two members of a family; one reservation charges one", a, b)
	}
	return BadInput("%s and %s are two keys of one pool; one reservation charges one", a, b)
}

// CheckRecord returns an error if a request to record is invalid. Its units may be
// negative.
func (r *Request) CheckRecord() error {
	if err := r.checkAtLeast(); err != nil {
		return err
	}
	positive := *r
	positive.Charges = make([]Charge, len(r.Charges))
	for i, c := range r.Charges {
		if c.Units < 0 {
			c.Units = -c.Units // the smallest integer stays negative, and is refused
		}
		positive.Charges[i] = c
	}
	return positive.Check()
}

func (r *Request) checkAtLeast() error {
	if r.AtLeast && r.ID != "" {
		return BadInput("units that count at least take no id: it is %.40q", r.ID)
	}
	for i := range r.Charges {
		switch c := &r.Charges[i]; {
		case r.Generation != 0 && c.Units > 0:
			return BadInput("%s: units that go back to their grant must be below 0, not %d", c.Pool, c.Units)
		case !r.AtLeast:
		case c.Units < 0:
			return BadInput("%s: units that count at least must be 0 to %d, not %d", c.Pool, window.MaxUnits, c.Units)
		case c.Window < 0 || c.Window >= len(c.Windows):
			return BadInput("%s has no window %d: it has %d", c.Pool, c.Window, len(c.Windows))
		}
	}
	return nil
}

func (c *Charge) check() error {
	if p := &c.Pool; p.Upstream == "" || p.Account == "" || p.Name == "" && p.Key == "" {
		return BadInput("pool %q is not named whole: upstream, account, and a pool or a key", p.String())
	}
	if len(c.Windows) == 0 || len(c.Windows) > maxWindows {
		return BadInput("%s: a pool has 1 to %d windows, not %d", c.Pool, maxWindows, len(c.Windows))
	}
	for i := range c.Windows {
		w := &c.Windows[i]
		if w.Spec.InFlight() && len(c.Windows) > 1 {
			return BadInput("%s: a window of calls in flight must be the only one", c.Pool)
		}
		if w.Limit < 0 || w.Layout == "" {
			return BadInput("%s: window %q with limit %d is not one that NewLimit made", c.Pool, w.Name, w.Limit)
		}
		if most := w.Spec.MaxLimit(); w.Limit > most {
			return BadInput("%s: window %q has room for %d units at most, not for a limit of %d", c.Pool, w.Name, most, w.Limit)
		}
	}
	return nil
}

// Check returns an error if a name of the pool is invalid. It accepts missing names.
func (p Pool) Check() error {
	return checkNames(p.Upstream, p.Account, p.Name, p.Key)
}

// checkNames returns an error if a name is invalid. Names may have all printable
// characters. Code that joins names into a key must escape its separators.
func checkNames(names ...string) error {
	for _, name := range names {
		if !printable(name, maxName) {
			return BadInput("name %.40q must be at most %d printable bytes", name, maxName)
		}
	}
	return nil
}

// Check returns an error if a query is invalid.
func (q *SpendQuery) Check() error { return checkNames(q.Upstream, q.Account) }

func (l *Labels) check() error {
	for _, s := range [...]string{l.Method, l.Job, l.Region, l.Class, l.Reason} {
		if !printable(s, maxLabel) {
			return BadInput("label %.40q must be at most %d printable bytes", s, maxLabel)
		}
	}
	return nil
}

// validID reports whether id is 1 to 128 printable bytes.
func validID(id string) bool {
	if len(id) == 0 || len(id) > maxIDBytes {
		return false
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// printable reports whether s is valid text without control characters, of at most so
// many bytes.
func printable(s string, most int) bool {
	if len(s) > most {
		return false
	}
	ascii := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	return ascii || utf8.ValidString(s)
}

// Check returns an error if a request to block is invalid.
func (b *BlockRequest) Check() error {
	if len(b.Charges) == 0 || len(b.Charges) > maxCharges {
		return BadInput("a block shuts 1 to %d pools, not %d", maxCharges, len(b.Charges))
	}
	for i := range b.Charges {
		if err := b.Charges[i].Pool.Check(); err != nil {
			return err
		}
		if err := b.Charges[i].check(); err != nil {
			return err
		}
		if p, first := b.Charges[i].Pool, b.Charges[0].Pool; p.Name == "" {
			return BadInput("%s: a family's member cannot be blocked", p)
		} else if p.Upstream != first.Upstream || p.Account != first.Account {
			return BadInput("%s and %s belong to two accounts; block them one by one", first, p)
		}
	}
	if most := maxReason + len(byUpstream); !printable(b.Reason, most) {
		return BadInput("reason %.40q must be at most %d printable bytes", b.Reason, most)
	}
	switch {
	case b.Open:
		return nil
	case b.For < 0 || b.For == 0 && b.Until.IsZero():
		return BadInput("a block needs a time until which it stands")
	case b.For > maxBlock:
		return BadInput("a block may last %s at most, not %s", roundUp(maxBlock), roundUp(b.For))
	}
	return nil
}

// Add adds the settlement of another charge.
func (s *Settlement) Add(t Settlement) {
	s.Back += t.Back
	s.Left += t.Left
	s.Charged += t.Charged
}
