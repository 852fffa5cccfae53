package book

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Descriptor says which limit a descriptor of Envoy's rate limit service means: a family,
// or a pool of an account.
type Descriptor struct {
	Domain  string
	Entries []Entry
	Family  string

	Upstream, Account, Pool string
}

// Entry is an entry of a descriptor. If Any is set, any value matches and is the key.
type Entry struct {
	Key, Value string
	Any        bool
}

func (r *reader) descriptors(all []keys.Descriptor, b *Book) (made []Descriptor) {
	for i := range all {
		d := &all[i]
		if !r.readable(d) || !r.sound(d) {
			continue
		}
		one := Descriptor{Domain: d.Domain, Family: d.Family}
		keyed := false
		for _, text := range d.Entries {
			key, value, fixed := strings.Cut(text, "=")
			one.Entries = append(one.Entries, Entry{Key: key, Value: value, Any: !fixed})
			keyed = keyed || !fixed
			if key == "" {
				r.fault(r.place(&d.Entries), "entry %q has no key; write key or key=value", text)
			}
		}
		switch {
		case d.Family != "" && b.Families[d.Family] == nil:
			r.fault(r.place(&d.Family), "family %q does not exist%s", d.Family, orMean(d.Family, slices.Sorted(maps.Keys(b.Families)), "add it to families"))
		case d.Family != "" && !keyed:
			r.fault(r.place(&d.Entries), "a family needs a key; write an entry without its value, as in [path=/login, remote_address]")
		case d.Pool != "":
			r.descriptorPool(d, &one, b)
		}
		if j := slices.IndexFunc(made, func(before Descriptor) bool { return before.covers(&one) }); j >= 0 {
			r.fault(r.place(d), "this descriptor is never reached: the one at %s takes all that this is for; move this one above it", r.place(&all[j]))
		}
		made = append(made, one)
	}
	return made
}

func (r *reader) descriptorPool(d *keys.Descriptor, one *Descriptor, b *Book) {
	who, pool, named := strings.Cut(d.Pool, "/")
	upstream, account, other := strings.Cut(who, "@")
	if !other {
		account = DefaultAccount
	}
	one.Upstream, one.Account, one.Pool = upstream, account, pool
	u := b.Upstreams[upstream]
	switch {
	case !named:
		r.fault(r.place(&d.Pool), "pool %q has no upstream; write it as youtube/units", d.Pool)
	case u == nil:
		r.fault(r.place(&d.Pool), "pool %q: there is no upstream %q", d.Pool, upstream)
	case u.Pools[pool] == nil:
		r.fault(r.place(&d.Pool), "pool %q: upstream %q has no pool %q", d.Pool, upstream, pool)
	}
}

// covers reports whether a descriptor matches all that another matches.
func (d *Descriptor) covers(o *Descriptor) bool {
	return d.Domain == o.Domain && slices.EqualFunc(d.Entries, o.Entries, func(a, b Entry) bool {
		return a.Key == b.Key && (a.Any || !b.Any && a.Value == b.Value)
	})
}

// noValue is the key of an empty value, such as that of an empty header. It must have a
// key: Envoy lets requests pass that are answered with an error.
const noValue = "(empty)"

// Describes returns the descriptor of a domain that matches these entries, and the key that
// they name. Without one it returns nil.
func (b *Book) Describes(domain string, entries []Entry) (d *Descriptor, key string) {
	if b == nil {
		return nil, ""
	}
	for i := range b.Descriptors {
		d := &b.Descriptors[i]
		if !d.covers(&Descriptor{Domain: domain, Entries: entries}) {
			continue
		}
		var values []string
		for n, e := range entries {
			if d.Entries[n].Any {
				values = append(values, e.Value)
			}
		}
		if len(values) == 1 {
			return d, cmp.Or(values[0], noValue)
		}
		for n := range values { // so that no value looks like two
			values[n] = escaped.Replace(values[n])
		}
		return d, strings.Join(values, ",")
	}
	return nil, ""
}

var escaped = strings.NewReplacer("\\", "\\\\", ",", "\\,")
