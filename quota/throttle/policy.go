package throttle

import (
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// told holds the parts of answers that depend only on the price book.
type told struct {
	book     *quota.Book
	policies map[familyKey]*policy
}

// familyKey is a family, or one of its keys with limits of their own.
type familyKey struct{ family, key string }

// policy describes the windows of a family, or of one of its keys.
type policy struct {
	header  []string // the value of RateLimit-Policy
	windows []windowTold
}

type windowTold struct {
	window string // as verdicts name it
	item   string // "client"
	body   []byte // of a refusal
}

// policies returns the policies of the ledger's price book, which may have changed.
func (t *Throttle) policies() *told {
	costs := t.ledger.Book()
	if now := t.told.Load(); now != nil && now.book == costs {
		return now
	}
	now := &told{book: costs, policies: make(map[familyKey]*policy)}
	for name, f := range costs.Families {
		now.policies[familyKey{name, ""}] = newPolicy(name, f.Windows)
		for key, windows := range f.Overrides {
			now.policies[familyKey{name, key}] = newPolicy(name, windows)
		}
	}
	t.told.Store(now)
	return now
}

// policy returns the policy of a key, or nil if the family has left the book.
func (t *told) policy(name, key string) *policy {
	if own := t.policies[familyKey{name, key}]; own != nil {
		return own
	}
	return t.policies[familyKey{name, ""}]
}

func newPolicy(family string, windows []book.Window) *policy {
	p := &policy{}
	var items []string
	for _, w := range windows {
		name, limit := family, strconv.FormatInt(w.Limit(book.Class{}), 10)
		if len(windows) > 1 {
			name += "-" + strings.ReplaceAll(w.Spec.String(), " ", "-")
		}
		item := `"` + name + `"` // names of the price book need no escape
		length := w.Length()
		if w.Drains() { // all of a burst comes back in more than one length
			full := window.NewLimit(w.Spec, w.Limit(book.Class{}))
			length = full.Span()
		}
		items = append(items, item+";q="+limit+";w="+strconv.FormatInt(seconds(length), 10))
		p.windows = append(p.windows, windowTold{
			window: w.Spec.String(),
			item:   item,
			body:   exceeded("at most "+limit+" in "+w.Spec.String()+"; come again after the seconds in Retry-After", name),
		})
	}
	p.header = []string{strings.Join(items, ", ")}
	return p
}

// seconds rounds up, so that no client comes back too early.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
