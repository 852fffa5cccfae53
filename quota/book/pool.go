package book

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Pool is an allowance of an upstream. In a ledger each account has a pool of its
// own, which quota.Pool names.
type Pool struct {
	Name     string
	Windows  []Window
	Accounts map[string][]Window // of accounts with limits of their own

	By      []Source            // name the key; each key has a page of its own, as in a family
	MaxKeys int                 // keys that are counted separately; further ones share one count
	Keys    map[string][]Window // limits of single keys
	Example string              // where a customer finds its own limit: the quota is an example
	// LearnLimit adopts a limit in answers that is above the quota, until its reset.
	LearnLimit bool
	// Learned is set if the quota is learned from refusals, as no limit is published.
	Learned *Rate
	// Metric is the name under which the upstream itself counts the units, or "".
	Metric string
	// SettleFactor bounds what a caller over HTTP may settle a call to, as a multiple of what
	// it reserved.
	SettleFactor int64
	// Money says that the pool is a budget: its units are millionths of [Money].
	Money bool
	// OnlyKeys says that only the calls of Keys spend the budget.
	OnlyKeys bool
	// Then are the steps of a budget, in rising order.
	Then []Step
	// StepOf is the budget of which the pool is the rate of a step, or "". It bounds only calls that pass the step.
	StepOf string
	// Lease is set if processes take units in blocks. The rings of Windows, and those of
	// accounts and keys, count units for Life longer, because calls leave that much later.
	Lease Lease
}

// Rate bounds a rate that is learned, in units a second.
type Rate struct {
	From, To int64
	Obey     bool // wait as long as each refusal asks for
}

// WindowsFor returns the limits that hold for an account.
func (p *Pool) WindowsFor(account string) []Window {
	if own := p.Accounts[account]; own != nil {
		return own
	}
	return p.Windows
}

// Calendar reports whether the pool has a calendar, whose reset ends a block.
func (p *Pool) Calendar() bool {
	return slices.ContainsFunc(p.Windows, func(w Window) bool { return w.Spec.Calendar() })
}

// pool makes one pool, or returns nil if something is wrong with it. Known are all pools.
func (r *reader) pool(name string, d *keys.Pool, known []string) *Pool {
	if !r.readable(d) {
		return nil
	}
	label := fmt.Sprintf("pool %q", name)
	if !r.given(&d.Windows) && d.Quota.Learn == nil && r.sound(&d.Quota) {
		others := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == name })
		r.fault(r.missing(&d.Windows, d), "%s has no windows%s", label, orMean(name, others, "give it at least one, such as {per: 24h}"))
		return nil
	}
	learned, ok := r.rate(d, label)
	if !ok {
		return nil
	}
	given := d.Windows
	if learned != nil && given == nil { // it has no other limit, and counts in a window that the rate never fills
		given = []keys.Window{{Per: "1m", Quota: 60 * learned.To}}
	}
	specs, ok := r.windows(given, label)
	quota, headroom := valueOf(d.Quota.Units), valueOf(d.Headroom)
	switch {
	case !ok || !r.sound(d):
		return nil
	case headroom > 0 && quota == 0:
		r.fault(r.place(&d.Headroom), "headroom of %s changes nothing without a quota beside it; give it to the windows that have a quota of their own", label)
		return nil
	}
	lease, ok := r.lease(d.Lease, specs, given, label, false)
	if !ok {
		return nil
	}
	windows, ok := r.limits(specs, given, quota, headroom, label, &d.Headroom, &d.Quota)
	if !ok {
		return nil
	}
	p := &Pool{Name: name, Example: d.Example, LearnLimit: d.Limit == "learn", Learned: learned, Metric: d.Metric, SettleFactor: cmp.Or(d.Settle, SettleFactor), Lease: lease, Windows: windows, Accounts: map[string][]Window{}}
	if !r.keyed(p, d, d.By, d.MaxKeys, label, "by: {body: model}") {
		return p
	}
	of := limited{label, specs, given, quota, headroom, []any{&d.Headroom, &d.Quota}, d.Lease, false}
	for _, key := range r.names(&d.Keys) {
		if w, ok := r.ownLimits(key, d.Keys[key], of); ok {
			p.Keys[key] = w
		}
	}
	return p
}

// rate returns the bounds of a quota that is learned, or nil.
func (r *reader) rate(d *keys.Pool, label string) (*Rate, bool) {
	l := d.Quota.Learn
	switch {
	case !r.sound(&d.Quota):
		return nil, false
	case l == nil:
		return nil, true
	}
	rate := &Rate{From: cmp.Or(l.From, 2), To: cmp.Or(l.To, 100_000), Obey: l.Obey}
	for _, is := range []struct {
		key string
		at  any
	}{{"by", &d.By}, {"lease", d.Lease}} {
		if r.given(is.at) {
			r.fault(r.place(is.at), "%s of %s does not go with a quota that is learned; remove it, or give the pool a quota", is.key, label)
			return nil, false
		}
	}
	if rate.From > rate.To {
		r.fault(r.blame(&l.From, &l.To), "from of %s is %d units a second, above its to, %d; lower it", label, rate.From, rate.To)
		return nil, false
	}
	return rate, true
}

// Key returns the key of a call, whose parts are the texts of By. One that is "" has its
// default. It returns "" if a part has none.
func (p *Pool) Key(parts []string) string {
	key := make([]string, len(p.By))
	for i := range p.By {
		if i < len(parts) {
			key[i] = parts[i]
		}
		if key[i] = cmp.Or(key[i], p.By[i].DefaultText); key[i] == "" {
			return ""
		}
	}
	return strings.Join(key, ",")
}

// CallerOf returns the name of who makes a call, by the job that is its label: that of its
// token, with which the job then begins, or else of the job.
func CallerOf(job string) string {
	name, _, _ := strings.Cut(job, "/")
	return name
}

// DefaultKey returns the key of a method's call of which only the job is known, or "".
func (p *Pool) DefaultKey(method, job string) string {
	parts := make([]string, len(p.By))
	for i := range p.By {
		switch {
		case p.By[i].Call:
			parts[i] = method
		case p.By[i].Caller:
			parts[i] = CallerOf(job)
		}
	}
	return p.Key(parts)
}

// SettleFactor is the settle_factor of a pool that has none.
const SettleFactor = 10

// defaultMaxKeys is the max_keys of a pool that has none.
const defaultMaxKeys = 100_000

// keyed makes what names the keys of a pool or budget. It returns false if nothing does.
func (r *reader) keyed(p *Pool, d any, by []keys.Source, most int64, label, example string) bool {
	if by == nil {
		for _, key := range []string{"keys", "max_keys"} {
			if e := r.written(d).Value(key); e != nil {
				r.fault(e.At, "%s of %s changes nothing without by; write what names the key of a call, as in %s", key, label, example)
			}
		}
		return false
	}
	var ok bool
	p.By, ok = r.keySources(by)
	p.MaxKeys, p.Keys = int(cmp.Or(most, defaultMaxKeys)), map[string][]Window{}
	return ok
}

// keySources makes the sources of a key, or of the name of a price.
func (r *reader) keySources(all []keys.Source) (made []Source, ok bool) {
	for i := range all {
		by, ok := r.source(&all[i], forKey)
		if !ok {
			return nil, false
		}
		made = append(made, by)
	}
	return made, true
}

// sets returns the windows of the pool as each account has them, and then those of each
// key with limits of its own.
func (p *Pool) sets(accounts []string) (all [][]Window) {
	for _, account := range accounts {
		all = append(all, p.WindowsFor(account))
	}
	for _, key := range slices.Sorted(maps.Keys(p.Keys)) {
		all = append(all, p.Keys[key])
	}
	return all
}

// stillCharged reports pools that an overlay removed though methods charge them.
func (r *reader) stillCharged(u *keys.Upstream) {
	pools := r.written(&u.Pools)
	if pools == nil {
		return
	}
	for pool, at := range pools.Gone {
		var by []string
		note := func(name string, m *keys.Method) {
			if _, charged := m.Charge[pool]; charged || m.Pool == pool {
				by = append(by, name)
			}
		}
		for name, m := range u.Methods {
			note(name, m)
		}
		for verb, m := range u.Default {
			note(defaultName(verb), m)
		}
		slices.Sort(by)
		if n := len(by); n > 3 {
			by = append(by[:3], fmt.Sprintf("%d more", n-3))
		}
		if len(by) > 0 {
			r.fault(at, "pool %q is removed, but still charged by %s; remove them or give them another pool", pool, list(by, "and"))
		}
	}
}
