package book

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Family is a limit for each key separately, without a list of the keys.
type Family struct {
	Name      string
	Windows   []Window
	MaxKeys   int                 // keys that are counted separately; further ones share one count. NoMaximum if the book has none.
	Overrides map[string][]Window // limits of single keys
	Lease     Lease               // set if processes take units of a key in blocks; the rings of all windows count for its life longer

	given *keys.Family // as the book has it
}

// WindowsOf returns the windows of a key with another quota than the book has for it. It
// returns an error if a higher revision would be needed, or if nothing would change.
func (f *Family) WindowsOf(key string, quota int64) ([]Window, error) {
	windows, given := f.Windows, f.given.Windows
	if own, listed := f.Overrides[key]; listed {
		windows = own
		if d := f.given.Keys[key]; d != nil && d.Windows != nil {
			given = d.Windows
		}
	}
	if !takes(given) {
		return nil, fmt.Errorf("a limit of family %s changes nothing: every window has a quota of its own; raise these in the price book", f.Name)
	}
	windows = slices.Clone(windows)
	for i := range windows {
		if w := &windows[i]; given[i].Quota == 0 {
			before := w.Layout()
			if w.Quota = quota; w.Drains() {
				w.Rate, w.Quota = quota, cmp.Or(given[i].Burst, quota)
			}
			var err error
			if w.Spec, err = w.For(w.Quota); err != nil {
				return nil, fmt.Errorf("window %s of family %s: %w", w.Spec, f.Name, err)
			}
			if w.Layout() != before {
				return nil, fmt.Errorf("window %s of family %s cannot count to %d without a higher revision; set it in the price book", w.Spec, f.Name, quota)
			}
		}
	}
	return windows, nil
}

// NoMaximum is more keys than any store can hold.
const NoMaximum = math.MaxInt32

// most is a number, or none.
type most keys.Most

func (m *most) read(r *reader, f *field, t *tree) {
	if t.Kind == isText && t.Text == "none" {
		*m = most(keys.None)
		return
	}
	if t.Kind == isText {
		r.fault(t.At, "%s must be a whole number from %d to %d, or none, is %s", f.key, f.least, f.most, show(t))
		return
	}
	n, _ := r.integer(t, f.key, f.least, f.most)
	*m = most(n)
}

func (m *most) tree() *tree {
	switch {
	case *m == most(keys.None):
		return text("none")
	case *m != 0:
		return number(int64(*m))
	}
	return nil
}

func (r *reader) family(name string, d *keys.Family) *Family {
	f := &Family{Name: name, MaxKeys: int(d.MaxKeys), Overrides: map[string][]Window{}, given: d}
	if d.MaxKeys == keys.None {
		f.MaxKeys = NoMaximum
	}
	if !r.readable(d) {
		return f
	}
	label := fmt.Sprintf("family %q", name)
	specs, ok := r.windows(d.Windows, label)
	if !ok || !r.given(&d.Windows) || !r.sound(&d.Quota, &d.Windows) {
		return f
	}
	if f.Lease, ok = r.lease(d.Lease, specs, d.Windows, label, true); !ok {
		return f
	}
	if f.Windows, ok = r.limits(specs, d.Windows, d.Quota, 0, label, &d.Quota); !ok {
		return f
	}
	for _, key := range r.names(&d.Keys) {
		if w, ok := r.ownLimits(key, d.Keys[key], limited{label, f.Windows, d.Windows, d.Quota, 0, []any{&d.Quota}, d.Lease, true}); ok {
			f.Overrides[key] = w
		}
	}
	return f
}

// limited is a family or a pool whose keys may have limits of their own.
type limited struct {
	label           string
	specs           []Window
	windows         []keys.Window
	quota, headroom int64
	from            []any // where quota and headroom stand
	lease           *keys.Lease
	family          bool
}

func (r *reader) ownLimits(key string, d *keys.Key, of limited) ([]Window, bool) {
	if !r.sound(d) {
		return nil, false
	}
	label := fmt.Sprintf("key %q of %s", key, of.label)
	if d.Windows != nil {
		var ok bool
		if of.specs, ok = r.windows(d.Windows, label); !ok {
			return nil, false
		}
		of.windows = d.Windows
		if _, ok = r.lease(of.lease, of.specs, d.Windows, label, of.family); !ok {
			return nil, false
		}
	}
	switch {
	case d.Quota == 0 && d.Windows == nil:
		r.fault(r.found[d].At, "%s says nothing; give it a quota or windows, or remove it", label)
		return nil, false
	case d.Quota > 0 && !takes(of.windows):
		r.fault(r.place(&d.Quota), "the quota of %s changes nothing: every window has one of its own; give it windows", label)
		return nil, false
	}
	return r.limits(of.specs, of.windows, cmp.Or(d.Quota, of.quota), of.headroom, label, append([]any{&d.Quota}, of.from...)...)
}
