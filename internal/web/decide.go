package web

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/quota"
)

// Programs in any language reserve on the ledger, if they have the token: the routes
// under /v1/.

// decision is the handler of one of them. The body is read before the time for the
// answer begins, which slow clients are not to use up.
func (s *Server) decision(h answer, parameters ...string) http.Handler {
	next := s.api(h, parameters...)
	return s.authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long):
			err = &Problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body has more than %d bytes", long.Limit)}
		case err != nil:
			err = bad("the body came in part only")
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}))
}

// otherwise answers the same paths by other methods: who has no token is not told
// which one is right.
func (s *Server) otherwise(mux *http.ServeMux) {
	for _, r := range s.table() {
		method, path, _ := strings.Cut(r.pattern, " ")
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		mux.Handle(path, s.authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			s.fail(w, r, &Problem{Status: http.StatusMethodNotAllowed})
		})))
	}
}

// reserve takes the units of a call. Who hangs up before the answer may have been
// charged: the grant stands as spent, and the same id asks for it again.
func (s *Server) reserve(r *http.Request) (any, error) {
	call, err := readCall(r)
	if err != nil {
		return nil, err
	}
	ledger := s.from().Ledger
	granted, err := ledger.Reserve(r.Context(), call)
	if err != nil {
		err = undecided(ledger.Book(), err)
		if p, ok := errors.AsType[*Problem](err); ok && p.Verdict != nil {
			p.ID = cmp.Or(p.ID, call.ID) // also of what the store was not asked for
		}
		return nil, err
	}
	return grantOf(granted), nil
}

// readCall reads what is about to be spent.
func readCall(r *http.Request) (c quota.Call, err error) {
	var pool, outage string
	var units *int64
	var charges unitsByPool
	err = readObject(r, map[string]any{
		"upstream": &c.Upstream, "account": &c.Account,
		"method": &c.Method, "pool": &pool, "charges": &charges, "family": &c.Family, "key": &c.Key, "units": &units,
		"class": &c.Class, "job": &c.Job, "region": &c.Region, "id": &c.ID, "outage": &outage,
	})
	if err != nil {
		return c, err
	}
	c.Charges, c.Outage = charges, quota.Policy(outage)
	var named []string
	for _, way := range []struct {
		name  string
		there bool
	}{{"method", c.Method != ""}, {"pool", pool != ""}, {"charges", charges != nil}, {"family", c.Family != ""}} {
		if way.there {
			named = append(named, way.name)
		}
	}
	switch {
	case len(named) != 1:
		return c, wrong("name one of method, pool, charges and family, not %s", orNone(named))
	case units != nil && (named[0] == "method" || named[0] == "charges"):
		return c, wrong("units go with a pool or a family; a method has its price in the price book")
	case units != nil && *units < 1:
		return c, wrong("units must be 1 or more, not %d", *units)
	}
	n := int64(1)
	if units != nil {
		n = *units
	}
	switch {
	case pool != "":
		err = ofPool(&c, pool, n)
	case c.Family != "":
		c.Units = n
	}
	return c, err
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

// settle corrects a reservation to what the call really cost.
func (s *Server) settle(r *http.Request) (any, error) {
	var text string
	var units settledUnits
	if err := readObject(r, map[string]any{"token": &text, "units": &units}); err != nil {
		return nil, err
	}
	if units.one == nil && units.by == nil {
		return nil, wrong("units are missing: a number, or for several pools an object with the units of each")
	}
	return s.settleTo(r, text, func(pools []string) ([]int64, error) { return units.of(pools) })
}

// release gives back the units of a call that never left.
func (s *Server) release(r *http.Request) (any, error) {
	var text string
	if err := readObject(r, map[string]any{"token": &text}); err != nil {
		return nil, err
	}
	return s.settleTo(r, text, func(pools []string) ([]int64, error) { return make([]int64, len(pools)), nil })
}

// settleTo settles the reservation of a token to units by pool.
func (s *Server) settleTo(r *http.Request, text string, units func(pools []string) ([]int64, error)) (any, error) {
	token, pools, err := readReceipt(text)
	if err != nil {
		return nil, err
	}
	all, err := units(pools)
	if err != nil {
		return nil, err
	}
	ledger := s.from().Ledger
	done, err := ledger.Settle(r.Context(), token, all...)
	if err != nil {
		return nil, undecided(ledger.Book(), err)
	}
	return settlementOf(token.ID, done), nil
}

// readReceipt reads what receipt wrote. One that says no pools, as another program
// has it from quota.Token, is of one pool.
func readReceipt(text string) (quota.Token, []string, error) {
	head, names, _ := strings.Cut(text, ".")
	token, err := quota.ParseToken(head)
	if err != nil || len(names) > 64*maxPools {
		return token, nil, &Problem{Status: http.StatusBadRequest, Code: "malformed_token", Detail: "token: it was not made by this service; send it as reserve has returned it"}
	}
	return token, strings.Split(names, "."), nil
}

// maxPools is how many pools a reservation has at most.
const maxPools = 16

// receipt is the token of a grant, and its pools in the order of their charges; "" if
// nothing comes back.
func receipt(granted *quota.Reservation) string {
	token := granted.Token().String()
	if token == "" {
		return ""
	}
	return token + "." + strings.Join(slices.Sorted(maps.Keys(granted.Charges())), ".")
}

// pools tells how the pools stand.
func (s *Server) pools(r *http.Request) (any, error) {
	q := read(r)
	ledger := s.from().Ledger
	all, err := ledger.Usage(r.Context(), q.text("upstream"), q.text("account"))
	if err != nil {
		return nil, undecided(ledger.Book(), err)
	}
	return struct {
		Pools []view.Pool `json:"pools"`
	}{view.Pools(all)}, nil
}
