package book

import (
	"cmp"
	"fmt"
)

// Family is a limit for each key separately, without a list of the keys.
type Family struct {
	Name      string
	Windows   []Window
	MaxKeys   int                 // keys that are counted separately; further ones share one count
	Overrides map[string][]Window // limits of single keys
}

// family makes one family.
func (r *reader) family(name string, d *familyYAML) *Family {
	f := &Family{Name: name, MaxKeys: int(d.MaxKeys), Overrides: map[string][]Window{}}
	if !r.readable(d) {
		return f
	}
	label := fmt.Sprintf("family %q", name)
	specs, ok := r.windows(d.Windows, label)
	if !ok || !r.given(&d.Windows) || !r.sound(&d.Quota, &d.Windows) {
		return f
	}
	if f.Windows, ok = r.limits(specs, d.Windows, d.Quota, 0, label, &d.Quota); !ok {
		return f
	}
	for _, key := range r.names(&d.Keys) {
		if r.sound(d.Keys[key]) {
			r.familyKey(f, key, d.Keys[key], d)
		}
	}
	return f
}

// familyKey makes the limits of a single key.
func (r *reader) familyKey(f *Family, key string, d *keyYAML, family *familyYAML) {
	label := fmt.Sprintf("key %q of family %q", key, f.Name)
	specs, all := f.Windows, family.Windows
	if d.Windows != nil {
		var ok bool
		if specs, ok = r.windows(d.Windows, label); !ok {
			return
		}
		all = d.Windows
	}
	switch {
	case d.Quota == 0 && d.Windows == nil:
		r.fault(r.found[d].at, "%s says nothing; give it a quota or windows, or remove it", label)
		return
	case d.Quota > 0 && !takes(all):
		r.fault(r.place(&d.Quota), "the quota of %s changes nothing: every window has one of its own; give it windows", label)
		return
	}
	if w, ok := r.limits(specs, all, cmp.Or(d.Quota, family.Quota), 0, label, &d.Quota, &family.Quota); ok {
		f.Overrides[key] = w
	}
}
