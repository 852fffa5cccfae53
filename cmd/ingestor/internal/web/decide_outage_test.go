package web_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// lost is a store that does not answer.
type lost struct{ quota.Store }

var errLost = errors.New("dial tcp 10.1.2.3:6379: connection refused")

func (lost) Reserve(context.Context, quota.Request) (quota.Verdict, error) {
	return quota.Verdict{}, errLost
}

func (lost) Settle(context.Context, quota.Token, quota.Units) (quota.Settlement, error) {
	return quota.Settlement{}, errLost
}

func (lost) Record(context.Context, quota.Request) (quota.Units, error) { return nil, errLost }

func (lost) Look(context.Context, []quota.Charge) ([]quota.PageState, error) { return nil, errLost }

// lose makes the ledger one that cannot be reached.
func (r *rig) lose() {
	r.Helper()
	j, err := journal.Open(r.Context(), filepath.Join(r.TempDir(), "journal.db"), "redis://test")
	r.Must(err)
	r.Cleanup(func() { r.Must(j.Close()) })
	r.on(lost{}, &quota.Options{Clock: r.Clock, Journal: j, Allowance: 2})
}

// on puts the ledger on a store.
func (r *rig) on(store quota.Store, o *quota.Options) {
	r.Helper()
	costs, err := book.Parse("test", []byte(shop), nil)
	r.Must(err)
	r.Ledger, err = quota.New(costs, store, o)
	r.Must(err)
	r.token(theToken)
}

func TestOutages(t *testing.T) {
	r := newDecider(t, nil)
	token := r.grant(`{"pool": "units"}`).Token
	r.lose()
	for path, body := range map[string]string{
		"/v1/reserve": `{"method": "item.get"}`,
		"/v1/settle":  `{"token": "` + token + `", "units": 1}`,
		"/v1/release": `{"token": "` + token + `"}`,
	} {
		p := r.refuse(http.StatusServiceUnavailable, "outage", path, body)
		if a := r.ask("POST", path, body, withToken...); a.Header.Get("Retry-After") != "5" || strings.Contains(p.Detail, "10.1.2.3") {
			t.Errorf("%s: Retry-After %s, %s", path, a.Header.Get("Retry-After"), p.Detail)
		}
	}
	r.problem(http.StatusServiceUnavailable, "GET", "/v1/pools", "", withToken...)
	for range 2 {
		if v := r.grant(`{"method": "item.get", "outage": "admit"}`); !v.Outage || v.Token != "" || v.Pool != "shop/units" || v.ID == "" {
			t.Errorf("admitted: %s", encoded(t, v))
		}
	}
	r.refuse(http.StatusServiceUnavailable, "outage", "/v1/reserve", `{"method": "item.get", "outage": "admit"}`) // the allowance is used up
	r.refuse(http.StatusUnprocessableEntity, "impossible", "/v1/reserve", `{"pool": "units", "units": 11}`)
}

// Books that are not the ledger's are the server's fault and not the caller's.
func TestStaleBooks(t *testing.T) {
	r := newDecider(t, nil)
	store := memstore.New(&memstore.Options{Clock: r.Clock})
	r.on(store, &quota.Options{Clock: r.Clock})
	hour, err := window.Spec{Per: time.Hour}.Normal()
	r.Must(err)
	for pool, revision := range map[string]int64{"units": 7, "orders": 1} {
		_, err := store.Reserve(t.Context(), quota.Request{Charges: []quota.Charge{{
			Pool:  quota.Pool{Upstream: "shop", Account: "default", Name: pool},
			Units: 1, Windows: []window.Limit{window.NewLimit(hour, 10)}, Revision: revision,
		}}})
		r.Must(err)
		p := r.refuse(http.StatusServiceUnavailable, "stale_book", "/v1/reserve", `{"pool": "`+pool+`"}`)
		if !strings.Contains(p.Detail, "price book") {
			t.Errorf("%s: it says %q", pool, p.Detail)
		}
	}
	if p := r.problem(http.StatusServiceUnavailable, "GET", "/api/v1/quota", ""); p.Code != "stale_book" {
		t.Errorf("readers are told %+v", p)
	}
}

// An outage is written down when it begins and then once a minute, not for each that
// asks meanwhile.
func TestOutagesDoNotFloodTheLog(t *testing.T) {
	var log bytes.Buffer
	r := newDecider(t, &web.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	r.lose()
	ask := func(times int) {
		for range times {
			r.refuse(http.StatusServiceUnavailable, "outage", "/v1/reserve", `{"method": "item.get"}`)
			r.problem(http.StatusServiceUnavailable, "GET", "/api/v1/quota", "")
		}
	}
	lines := func() (own []string) {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "answer a request") {
				own = append(own, line)
			}
		}
		return own
	}
	ask(20)
	if said := lines(); len(said) != 2 || !strings.Contains(log.String(), errLost.Error()) {
		t.Errorf("20 times two routes, and the log has\n%s", strings.Join(said, ""))
	}
	r.Clock.Advance(time.Minute)
	ask(20)
	if said := lines(); len(said) != 4 || !strings.Contains(said[3], "skipped=19") {
		t.Errorf("a minute later it has\n%s", strings.Join(said, ""))
	}
}

// hangingUp is a store whose caller hangs up when it is charged.
type hangingUp struct {
	quota.Store
	hangUp context.CancelFunc
	done   chan struct{}
}

func (h *hangingUp) Reserve(ctx context.Context, q quota.Request) (quota.Verdict, error) {
	v, err := h.Store.Reserve(ctx, q)
	if h.hangUp != nil {
		h.hangUp()
		h.hangUp = nil
		<-ctx.Done()
		close(h.done)
		return quota.Verdict{}, ctx.Err()
	}
	return v, err
}

// A caller that hangs up after the charge gets the grant again with the same id.
func TestHangingUp(t *testing.T) {
	r := newDecider(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := &hangingUp{memstore.New(&memstore.Options{Clock: r.Clock}), cancel, make(chan struct{})}
	r.on(h, &quota.Options{Clock: r.Clock})
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/reserve", strings.NewReader(`{"pool": "units", "units": 3, "id": "a"}`))
	r.Must(err)
	req.Header.Set("Authorization", "Bearer "+theToken)
	if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
		r.Must(res.Body.Close())
		t.Fatalf("it was answered: %s", res.Status)
	}
	<-h.done
	if v := r.grant(`{"pool": "units", "units": 3, "id": "a"}`); !v.Repeat || v.Used != 3 || v.Token == "" {
		t.Errorf("the same id again: %s", encoded(t, v))
	}
}
