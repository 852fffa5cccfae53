package pgstore

import (
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// keyless returns the family of a member, as a pool.
func keyless(f *pagestore.Family) quota.Pool {
	return quota.Pool{Upstream: f.Upstream, Account: f.Account, Name: f.Pool}
}

func (t *tx) Family(p *quota.Pool) (*pagestore.Family, error) {
	key := quota.Pool{Upstream: p.Upstream, Account: p.Account, Name: p.Name}
	f := t.families[key]
	if f == nil && valid(p.Upstream) && valid(p.Account) && valid(p.Name) {
		if err := t.ask(t.findFamilies(key)); err != nil {
			return nil, err
		}
		f = t.families[key]
	}
	if f == nil {
		f = &family{none: true}
		f.Upstream, f.Account, f.Pool, f.Ref = p.Upstream, p.Account, p.Name, f
		t.families[key] = f
	}
	return &f.Family, nil
}

func (t *tx) findFamilies(pools ...quota.Pool) query {
	var p quota.Pool
	var members, called, leapt, proven int64
	var known bool
	var zone string
	into := []any{&p.Upstream, &p.Account, &p.Name, &members, &called, &leapt, &proven, &known, &zone}
	return query{"families", pgschema.Arrays(names(pools)), into, func() error {
		f := &family{known: known, zone: zone}
		f.Upstream, f.Account, f.Pool, f.Ref, f.Members = p.Upstream, p.Account, p.Name, f, int(members)
		f.Course = pagestore.Course{Called: window.Instant(called), Leapt: window.Instant(leapt), Proven: window.Instant(proven)}
		t.families[p] = f
		return nil
	}}
}

func (t *tx) PutFamily(of *pagestore.Family) error {
	if f := of.Ref.(*family); !f.dirty {
		f.dirty = true
		t.dirtyFamilies = append(t.dirtyFamilies, f)
	}
	return nil
}

func (t *tx) Member(f *pagestore.Family, key string) (*pagestore.Entry, error) {
	p := keyless(f)
	p.Key = key
	e := t.members[p]
	if e == nil && valid(key) {
		if err := t.ask(t.findKeys(p)); err != nil {
			return nil, err
		}
		e = t.members[p]
	}
	if e == nil {
		e = t.member(p)
	}
	return e.whole()
}

// whole returns the entry, unless its page is damaged.
func (e *entry) whole() (*pagestore.Entry, error) {
	if e.damaged != nil {
		return nil, e.damaged
	}
	return &e.Entry, nil
}

func (t *tx) member(p quota.Pool) *entry {
	e := &entry{member: true}
	e.Pool, e.Ref = p, e
	t.members[p] = e
	return e
}

// findMembers reads members. A member that was read before is as it is in this transaction.
func (t *tx) findMembers(name string, args []any, found func(*entry)) query {
	var p quota.Pool
	var listed bool
	var reason string
	var page []byte
	return query{name, args, []any{&p.Upstream, &p.Account, &p.Name, &p.Key, &listed, &reason, &page}, func() error {
		e := t.members[p]
		if e == nil {
			e = t.member(p)
			e.Listed, e.Reason = listed, reason
			t.unpack(e, page)
		}
		if found != nil {
			found(e)
		}
		return nil
	}}
}

func (t *tx) findKeys(pools ...quota.Pool) query {
	args := names(pools)
	for i := range args {
		args[i] = append(args[i], pools[i].Key)
	}
	return t.findMembers("members", pgschema.Arrays(args), nil)
}

// findOldest reads what Oldest returns first.
func (t *tx) findOldest(families ...quota.Pool) query {
	return t.findMembers("oldest", pgschema.Arrays(names(families)), func(e *entry) {
		if f := t.families[quota.Pool{Upstream: e.Pool.Upstream, Account: e.Pool.Account, Name: e.Pool.Name}]; f != nil {
			f.oldest = e
		}
	})
}

func (t *tx) Oldest(of *pagestore.Family) (*pagestore.Entry, error) {
	f := of.Ref.(*family)
	if f.oldest == nil && !f.none {
		if err := t.ask(t.findOldest(keyless(of))); err != nil {
			return nil, err
		}
		f.none = f.oldest == nil
	}
	if f.none {
		return nil, nil
	}
	return f.oldest.whole()
}

func (t *tx) Ahead(f *pagestore.Family) (_ *pagestore.Entry, err error) {
	var latest *entry
	args := []any{f.Upstream, f.Account, f.Pool, t.micros()}
	if err = t.ask(t.findMembers("ahead", args, func(e *entry) { latest = e })); err != nil || latest == nil {
		return nil, err
	}
	return latest.whole()
}

func (t *tx) Drop(of *pagestore.Entry) error {
	e := of.Ref.(*entry)
	e.dropped = true
	t.touch(e)
	t.member(e.Pool) // its key is new again
	return nil
}

// putMember stores a member, and the number under which a keyed pool counts its spend. The
// pool has no page of its own, so nothing of it can be forgotten.
func (t *tx) putMember(e *entry, c *quota.Charge) {
	t.touch(e)
	if c == nil {
		return
	}
	e.names = storekit.WindowNames(c.Windows)
	f := e.Family.Ref.(*family)
	if zone := storekit.ZoneName(c.Zone); f.Pool != "" && (!f.known || f.zone != zone) {
		f.known, f.zone = true, zone
		if !f.birth {
			f.birth = true
			t.zones = append(t.zones, f)
		}
	}
}

// touch notes that a member changed, and that another one may be the oldest now.
func (t *tx) touch(e *entry) {
	if f := t.families[quota.Pool{Upstream: e.Pool.Upstream, Account: e.Pool.Account, Name: e.Pool.Name}]; f != nil {
		f.stale()
	}
	if !e.dirty {
		e.dirty = true
		t.dirtyMembers = append(t.dirtyMembers, e)
	}
}
