package book

import (
	"maps"
	"slices"
	"strings"
)

// Follows returns an error if a running ledger cannot change from the book before to
// this one: the revision is lower, or it is the same but a pool or family has other
// windows. A store with pages laid out by the book before would refuse every call.
// Call it before Ledger.SetBook of package quota.
func (b *Book) Follows(before *Book) error {
	if b == nil || before == nil {
		return BadInput("compare price books: one is missing; it is made by book.Parse")
	}
	if b.Revision > before.Revision {
		return nil
	}
	if b.Revision < before.Revision {
		return BadInput("the price book has revision %d, and %d is in use: raise its revision", b.Revision, before.Revision)
	}
	now, was := b.layouts(), before.layouts()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if layout, known := was[name]; known && layout != now[name] {
			return BadInput("%s has other windows under the same revision %d of the price book: raise its revision", name, b.Revision)
		}
	}
	return nil
}

// layouts are how the pages of pools and families are laid out, by name.
func (b *Book) layouts() map[string]string {
	all := map[string]string{}
	for _, u := range b.Upstreams {
		for _, account := range u.Accounts {
			who := u.Name
			if account != DefaultAccount {
				who += "@" + account
			}
			for _, p := range u.Pools {
				all[who+"/"+p.Name] = layout(p.WindowsFor(account))
			}
		}
	}
	for name, f := range b.Families {
		all["family "+name] = layout(f.Windows)
		for key, windows := range f.Overrides {
			all["family "+name+", key "+key] = layout(windows)
		}
	}
	return all
}

// layout is how a page with these windows is laid out.
func layout(windows []Window) string {
	return strings.Join(textsOf(windows, func(w Window) string { return w.Layout() }), "; ")
}
