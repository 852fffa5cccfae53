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

	"github.com/headroom-quota/headroom/internal/web/view"
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
	ended := s.tracer.Reserve(r.Context())
	granted, err := ledger.Reserve(r.Context(), call)
	ended(granted, err)
	if err != nil {
		err = undecided(ledger.Book(), err)
		if p, ok := errors.AsType[*Problem](err); ok && p.Verdict != nil {
			p.ID = cmp.Or(p.ID, call.ID) // also of what the store was not asked for
		}
		return nil, err
	}
	return grantOf(granted), nil
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
	token, pools, err := readReceipt(text)
	if err != nil {
		return nil, err
	}
	cost, err := units.of(pools)
	if err != nil {
		return nil, err
	}
	ledger := s.from().Ledger
	done, err := ledger.Settle(r.Context(), token, cost)
	return settled(ledger, token, done, err)
}

// release gives back the units of a call that never left.
func (s *Server) release(r *http.Request) (any, error) {
	var text string
	if err := readObject(r, map[string]any{"token": &text}); err != nil {
		return nil, err
	}
	token, pools, err := readReceipt(text)
	if err != nil {
		return nil, err
	}
	ledger := s.from().Ledger
	if len(pools) == 0 {
		done, err := ledger.Release(r.Context(), token)
		return settled(ledger, token, done, err)
	}
	nothing := make(quota.Units, len(pools)) // by name, so that a token that was changed is found out
	for _, pool := range pools {
		nothing[pool] = 0
	}
	done, err := ledger.Settle(r.Context(), token, nothing)
	return settled(ledger, token, done, err)
}

// settled is the answer to a settlement.
func settled(ledger *quota.Ledger, token quota.Token, done quota.Settlement, err error) (any, error) {
	if err != nil {
		return nil, undecided(ledger.Book(), err)
	}
	return settlementOf(token.ID, done), nil
}

// readReceipt reads what receipt wrote. One that another program has from quota.Token
// says no pools.
func readReceipt(text string) (token quota.Token, pools []string, err error) {
	head, names, named := strings.Cut(text, ".")
	token, err = quota.ParseToken(head)
	if named {
		pools = strings.Split(names, ".")
	}
	inOrder := slices.Compact(slices.Sorted(slices.Values(pools)))
	if err != nil || len(pools) > maxPools || !slices.Equal(pools, inOrder) || slices.Contains(pools, "") {
		return token, nil, &Problem{Status: http.StatusBadRequest, Code: "malformed_token", Detail: "token: it was not made by this service; send it as reserve has returned it"}
	}
	return token, pools, nil
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
