package web

import (
	"net/http"
	"strings"

	"github.com/headroom-quota/headroom/quota"
)

// wanted is what a request to reserve says. Pointers tell what is absent.
type wanted struct {
	call         quota.Call
	pool, outage string
	charges      unitsByPool
	id           *string
	units        *int64
}

// readCall reads what is about to be spent.
func readCall(r *http.Request) (quota.Call, error) {
	var w wanted
	c := &w.call
	err := readObject(r, map[string]any{
		"upstream": &c.Upstream, "account": &c.Account,
		"method": &c.Method, "pool": &w.pool, "charges": &w.charges, "family": &c.Family, "key": &c.Key, "units": &w.units,
		"class": &c.Class, "job": &c.Job, "region": &c.Region, "id": &w.id, "outage": &w.outage,
	})
	if err == nil {
		err = w.check()
	}
	if err == nil {
		err = w.complete()
	}
	return w.call, err
}

// check says what does not go together.
func (w *wanted) check() error {
	var named []string
	for _, way := range []struct {
		name  string
		there bool
	}{{"method", w.call.Method != ""}, {"pool", w.pool != ""}, {"charges", w.charges != nil}, {"family", w.call.Family != ""}} {
		if way.there {
			named = append(named, way.name)
		}
	}
	switch {
	case len(named) != 1:
		return wrong("name one of method, pool, charges and family, not %s", orNone(named))
	case w.units != nil && (named[0] == "method" || named[0] == "charges"):
		return wrong("units go with a pool or a family; a method has its price in the price book")
	case w.units != nil && *w.units < 1:
		return wrong("units must be 1 or more, not %d", *w.units)
	case w.id != nil && *w.id == "":
		return wrong("id is empty; leave it out, or name the call by 1 to 128 printable bytes")
	case w.id != nil && named[0] == "family":
		return wrong("a family keeps no receipts, so that the same id would be charged again; leave it out")
	}
	return nil
}

// complete makes a call of it.
func (w *wanted) complete() error {
	c := &w.call
	c.Charges, c.Outage = quota.Units(w.charges), quota.Policy(w.outage)
	if w.id != nil {
		c.ID = *w.id
	}
	units := int64(1)
	if w.units != nil {
		units = *w.units
	}
	switch {
	case w.pool != "":
		return ofPool(c, w.pool, units)
	case c.Family != "":
		c.Units = units
	}
	return nil
}

// ofPool charges one pool, which may be named with its upstream and account, as
// verdicts name it.
func ofPool(c *quota.Call, name string, units int64) error {
	if strings.Contains(name, "/") {
		p, err := quota.ParsePool(name)
		if err != nil {
			return wrong("%v", err)
		}
		if c.Upstream != "" || c.Account != "" {
			return wrong("pool %.80q names its upstream and account already; leave those fields out", name)
		}
		c.Upstream, c.Account, name = p.Upstream, p.Account, p.Name
	}
	c.Charges = map[string]int64{name: units}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " and ")
}
