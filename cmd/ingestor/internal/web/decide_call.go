package web

import (
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
)

// wanted is the body of a request to reserve. A nil pointer means an absent field.
type wanted struct {
	call         quota.Call
	pool, outage string
	charges      unitsByPool
	id           *string
	units        *int64
}

// readCall parses the object that describes a call to reserve.
func readCall(object []byte) (quota.Call, error) {
	var w wanted
	c := &w.call
	err := readFields(object, []field{
		{"upstream", &c.Upstream},
		{"account", &c.Account},
		{"method", &c.Method},
		{"pool", &w.pool},
		{"charges", &w.charges},
		{"family", &c.Family},
		{"key", &c.Key},
		{"units", &w.units},
		{"class", &c.Class},
		{"job", &c.Job},
		{"region", &c.Region},
		{"id", &w.id},
		{"outage", &w.outage},
	})
	if err == nil {
		err = w.check()
	}
	if err == nil {
		err = w.complete()
	}
	return w.call, err
}

// check returns an error if fields contradict each other.
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
		return problem.BadInput("send exactly one of method, pool, charges and family, not %s", orNone(named))
	case w.units != nil && (named[0] == "method" || named[0] == "charges"):
		return problem.BadInput("units need a pool or a family; the price book has the price of a method")
	case w.units != nil && *w.units < 1:
		return problem.BadInput("units must be 1 or more, not %d", *w.units)
	case w.id != nil && *w.id == "":
		return problem.BadInput("id is empty; leave it out, or send 1 to 128 printable bytes")
	case w.id != nil && named[0] == "family":
		return problem.BadInput("a family keeps no receipts, so a call with the same id would be charged again; leave the id out")
	}
	return nil
}

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
		return chargePool(c, w.pool, units)
	case c.Family != "":
		c.Units = units
	}
	return nil
}

// chargePool makes a call charge one pool. The name may include the upstream and the
// account, as in a verdict.
func chargePool(c *quota.Call, name string, units int64) error {
	if strings.Contains(name, "/") {
		p, err := quota.ParsePool(name)
		if err != nil {
			return problem.BadInput("%v", err)
		}
		if c.Upstream != "" || c.Account != "" {
			return problem.BadInput("pool %.80q already names its upstream and account; leave those fields out", name)
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

type settlement struct {
	ID      string `json:"id"`
	Back    int64  `json:"back"`
	Left    int64  `json:"left"`
	Charged int64  `json:"charged"`
	Repeat  bool   `json:"repeat"` // it was settled before, with this result
}

func settlementOf(t *quota.Token, s quota.Settlement) settlement {
	return settlement{problem.OwnID(t.ID), s.Back, s.Left, s.Charged, s.Repeat}
}

func grantOf(granted *quota.Reservation) *problem.Verdict {
	v := problem.VerdictOf(&granted.Verdict)
	v.Charges = granted.Charges()
	if n, has := granted.Bill(); has {
		v.Bill = &n
	}
	v.Token = receipt(granted, v.Charges)
	return v
}
