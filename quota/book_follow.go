package quota

import (
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/window"
)

// Follows says what is wrong with a price book that is to be used after another one
// without a pause: a lower revision, or other windows of a pool or family under the same
// one. A store that has pages by the book before would refuse every call. It is to be
// asked before [Ledger.SetBook].
func (b *Book) Follows(before *Book) error {
	if b.Revision > before.Revision {
		return nil
	}
	if b.Revision < before.Revision {
		return BadInput("the price book has revision %d, and %d is in use: raise revision in costs.yaml", b.Revision, before.Revision)
	}
	now, was := b.layouts(), before.layouts()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if layout, known := was[name]; known && layout != now[name] {
			return BadInput("%s has other windows under the same revision %d of the price book: raise revision in costs.yaml", name, b.Revision)
		}
	}
	return nil
}

// layouts are how the pages of pools and families are laid out, by name.
func (b *Book) layouts() map[string]string {
	of := func(limits []window.Limit) string {
		var all []string
		for i := range limits {
			all = append(all, limits[i].Layout)
		}
		return strings.Join(all, "; ")
	}
	p, all := newPrices(b), map[string]string{}
	for key, pools := range p.accounts {
		for _, c := range pools {
			if key.class == "" { // windows are the same for all classes
				all[c.Pool.String()] = of(c.Windows)
			}
		}
	}
	for name, f := range p.families {
		all["family "+name] = of(f.charge.Windows)
		for key, c := range f.overrides {
			all["family "+name+", key "+key] = of(c.Windows)
		}
	}
	return all
}
