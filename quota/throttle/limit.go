package throttle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// DefaultFamily is the family of a [Limit] that names none.
const DefaultFamily = "client"

// Book is a price book for those who have none: the family "client", 60 requests
// a minute by the two-counter estimate, of 100,000 keys at most.
func Book() *quota.Book {
	b, err := book.Parse("throttle.Book", []byte(`
revision: 1
families: {client: {quota: 60, windows: [{per: 1m, algorithm: counter}]}}
`), nil)
	if err != nil {
		panic(err) // it is a constant
	}
	return b
}

// Limit is one limit of a route. Several are asked in their order, and all must
// admit; what one before a refusal has counted stays counted.
type Limit struct {
	Family string // of the price book; "" is DefaultFamily
	By     []Part // what the key is made of; nil is Address
	Units  int64  // that a request takes; zero is 1
}

func complete(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		l := &limits[i]
		l.Family = cmp.Or(l.Family, DefaultFamily)
		l.Units = cmp.Or(l.Units, 1)
		if l.By == nil {
			l.By = []Part{Address}
		}
	}
	return limits
}

func (l *Limit) check(costs *quota.Book) error {
	f := costs.Families[l.Family]
	switch {
	case f == nil:
		return quota.BadInput("the price book has no family %.40q; add it under families: %s: {quota: 60, windows: [{per: 1m, algorithm: counter}]}", l.Family, l.Family)
	case len(l.By) == 0:
		return quota.BadInput("a limit of family %s by nothing would be one for all clients together; leave By nil for their address", l.Family)
	case l.Units < 1:
		return quota.BadInput("family %s: units must be 1 or more, not %d", l.Family, l.Units)
	case slices.Contains(l.By, Part{}):
		return quota.BadInput("family %s: a part of the key is empty; use Address, Token, Route, Header or Secret", l.Family)
	}
	if err := l.possible(f.Windows); err != nil {
		return err
	}
	for key, windows := range f.Overrides {
		if err := l.possible(windows); err != nil {
			return fmt.Errorf("key %.40q of %w", key, err)
		}
	}
	return nil
}

// possible returns an error if the windows could never admit a request.
func (l *Limit) possible(windows []book.Window) error {
	for _, w := range windows {
		if most := w.Limit(book.Class{}); l.Units > most {
			return quota.BadInput("family %s: a request of %d units is never admitted, as the limit of %s is %d", l.Family, l.Units, w.Spec, most)
		}
	}
	return nil
}
