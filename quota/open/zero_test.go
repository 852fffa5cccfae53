package open_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/throttle"
	"github.com/headroom-quota/headroom/quota/window"
)

// Every method of a value that its constructor did not make returns an error that says
// so. Nothing panics.
func TestZeroValuesSayHowTheyAreMade(t *testing.T) {
	var noClock *quota.SimClock // a zero one works
	// The methods of the next two are the engine's. A nil one panics, as in all of Go.
	values := []reflect.Value{reflect.ValueOf(noClock), reflect.ValueOf(&memstore.Store{}), reflect.ValueOf(&sqlitestore.Store{})}
	for _, v := range []any{
		&quota.Ledger{}, &quota.Hold{}, &quota.Book{}, &redisstore.Store{},
		&open.Opened{}, &open.Address{}, &breaker.Store{}, &journal.Journal{}, &meter.Transport{}, &throttle.Throttle{},
	} {
		values = append(values, reflect.ValueOf(v), reflect.Zero(reflect.TypeOf(v)))
	}
	for _, v := range values {
		name := v.Type().String()
		if v.IsNil() {
			name = "nil " + name
		}
		for i := range v.NumMethod() {
			t.Run(name+"."+v.Type().Method(i).Name, func(t *testing.T) { asks(t, v.Method(i)) })
		}
	}
	var noReservation *quota.Reservation
	for _, r := range []*quota.Reservation{{}, noReservation} {
		_, settle := r.Settle(t.Context(), quota.Units{"units": 1})
		_, release := r.Release(t.Context())
		for _, err := range []error{settle, release} {
			if !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "made by") || r.Charges() != nil {
				t.Errorf("%v: %v", r, err)
			}
		}
	}
	if _, err := (&quota.Ledger{}).Reserve((&quota.Hold{}).Context(t.Context()), quota.Call{}); !errors.Is(err, quota.ErrBadInput) {
		t.Error("under a zero hold:", err)
	}
	if _, err := redisstore.New(nil, nil); !errors.Is(err, quota.ErrBadInput) {
		t.Error("a store without a client:", err)
	}
	if err := breaker.New(nil, nil).Block(t.Context(), quota.BlockRequest{}); !errors.Is(err, quota.ErrBadInput) {
		t.Error("a breaker before nothing:", err)
	}
	if _, err := throttle.New(&quota.Ledger{}, nil); !errors.Is(err, quota.ErrBadInput) {
		t.Error("a throttle by a zero ledger:", err)
	}
	for _, ledger := range []*quota.Ledger{nil, {}} {
		if _, err := meter.New(ledger, nil); !errors.Is(err, quota.ErrBadInput) {
			t.Error("a transport without a ledger:", err)
		}
	}
	w := httptest.NewRecorder()
	(*throttle.Throttle)(nil).Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("a nil throttle answers %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	(&throttle.Throttle{}).Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "made by") {
		t.Errorf("a zero throttle answers %d %s", w.Code, w.Body)
	}
}

// asks calls a method with whatever fits.
func asks(t *testing.T, method reflect.Value) {
	spec, err := window.Spec{Per: time.Hour}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	charges := []quota.Charge{{
		Pool: quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}, Units: 1, Revision: 1,
		Windows: []window.Limit{window.NewLimit(spec, 10)},
	}}
	given := map[reflect.Type]any{
		reflect.TypeFor[context.Context]():             t.Context(),
		reflect.TypeFor[*http.Request]():               httptest.NewRequest("GET", "http://example.com/", strings.NewReader("x")),
		reflect.TypeFor[http.Handler]():                http.NotFoundHandler(),
		reflect.TypeFor[func(context.Context) error](): func(context.Context) error { return nil },
		reflect.TypeFor[quota.Token]():                 quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "x"},
		reflect.TypeFor[quota.Request]():               quota.Request{Charges: charges},
		reflect.TypeFor[quota.BlockRequest]():          quota.BlockRequest{Charges: charges, For: time.Minute},
		reflect.TypeFor[[]quota.Charge]():              charges,
	}
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		if method.Type().IsVariadic() && i == method.Type().NumIn()-1 {
			break
		}
		if v := given[method.Type().In(i)]; v != nil {
			args = append(args, reflect.ValueOf(v))
		} else {
			args = append(args, reflect.Zero(method.Type().In(i)))
		}
	}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("it panics: %v", p)
		}
	}()
	for _, out := range method.Call(args) {
		if out.Type() != reflect.TypeFor[error]() {
			continue
		}
		err, _ := out.Interface().(error)
		nothing := strings.HasSuffix(t.Name(), ".Close") || strings.Contains(t.Name(), ".Replay") // to close or to replay
		if err == nil && nothing {
			continue
		}
		if !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "made by") {
			t.Error(err)
		}
	}
}
