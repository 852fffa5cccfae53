package open_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// counting is an upstream that counts its calls.
func counting(t *testing.T) (server *httptest.Server, host string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(server.Close)
	return server, server.Listener.Addr().String(), calls
}

// get calls from many goroutines, and returns how many calls were refused.
func get(t *testing.T, url string, calls int, clients ...*http.Client) (refused int64) {
	t.Helper()
	var all sync.WaitGroup
	var no atomic.Int64
	for i := range calls {
		all.Go(func() {
			resp, err := clients[i%len(clients)].Get(url)
			var r *quota.RefusedError
			switch {
			case errors.As(err, &r):
				no.Add(1)
				if r.RetryAt.IsZero() {
					t.Error("a refusal does not say when the call succeeds")
				}
			case err != nil:
				t.Error(err)
			default:
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	return no.Load()
}

func TestClientKeepsLimitsWithoutABook(t *testing.T) {
	server, host, calls := counting(t)
	client, err := headroom.Client(headroom.Limits{{Host: host, Calls: 7, Per: time.Hour}, {Host: host, Calls: 100, Day: "UTC"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if refused := get(t, server.URL+"/things", 30, client); refused != 23 || calls.Load() != 7 {
		t.Errorf("%d calls were made and %d refused, want 7 and 23", calls.Load(), refused)
	}
}

// Two programs that name one ledger share its limits.
func TestClientsShareALedger(t *testing.T) {
	server, host, calls := counting(t)
	limits := headroom.Limits{{Host: host, Calls: 9, Per: 24 * time.Hour}}
	address := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	var clients []*http.Client
	for range 2 {
		client, ledger, err := open.Client(t.Context(), address, limits, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ledger.Close(); err != nil {
				t.Error(err)
			}
		})
		clients = append(clients, client)
	}
	if refused := get(t, server.URL, 20, clients...); refused != 11 || calls.Load() != 9 {
		t.Errorf("%d calls were made and %d refused, want 9 and 11", calls.Load(), refused)
	}
}

// Hosts that differ by their port alone have counts of their own.
func TestHostsAreKeptApart(t *testing.T) {
	one, first, ofFirst := counting(t)
	two, second, ofSecond := counting(t)
	client, err := headroom.Client(headroom.Limits{{Host: first, Calls: 2, Per: time.Hour}, {Host: second, Calls: 3, Per: time.Hour}, {Host: "a:1", Calls: 1, Per: time.Hour}, {Host: "a/1/", Calls: 1, Per: time.Hour}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	get(t, one.URL, 5, client)
	get(t, two.URL, 5, client)
	if ofFirst.Load() != 2 || ofSecond.Load() != 3 {
		t.Errorf("%d and %d calls were made, want 2 and 3", ofFirst.Load(), ofSecond.Load())
	}
}

func TestClientWaitsForItsTurn(t *testing.T) {
	server, host, calls := counting(t)
	client, err := headroom.Client(headroom.Limits{{Host: host, Calls: 2, Per: 200 * time.Millisecond}}, &meter.Options{MaxWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if refused := get(t, server.URL, 6, client); refused != 0 || calls.Load() != 6 {
		t.Errorf("%d calls were made and %d refused, want 6 and 0", calls.Load(), refused)
	}
}

// The host's own refusal shuts it, though the limit is not reached.
func TestClientBelievesTheHost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	client, err := headroom.Client(headroom.Limits{{Host: server.Listener.Addr().String(), Calls: 100, Per: time.Second}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(server.URL)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("the first call got %v, %v", resp, err)
	}
	resp.Body.Close()
	if refused := get(t, server.URL, 1, client); refused != 1 {
		t.Error("a call was sent before the host's Retry-After")
	}
}

func TestClientSaysWhatIsWrong(t *testing.T) {
	for want, p := range map[string]headroom.Prices{
		"there is no limit; write one, as in {Host:":                               headroom.Limits{},
		`it has no host; write one, as in Host: "api.example.com"`:                 headroom.Limits{{Calls: 1, Per: time.Second}},
		`limit 1, of host "a.example": it grants no calls; write Calls: 1 or more`: headroom.Limits{{Host: "a.example", Per: time.Second}},
		`limit 2, of host "b.example": it has no time; write Per: time.Second`:     headroom.Limits{{Host: "a.example", Calls: 1, Day: "UTC"}, {Host: "b.example", Calls: 1}},
		"it has both Per and Day; write two limits":                                headroom.Limits{{Host: "a.example", Calls: 1, Per: time.Second, Day: "UTC"}},
		`"Mars/Olympus"`: headroom.Limits{{Host: "a.example", Calls: 1, Day: "Mars/Olympus"}},
		`there is no built-in price book "builtin/gihub"; did you mean "builtin/github"?`: headroom.File("builtin/gihub"),
		"headroom.File(\"costs.yaml\")": nil,
	} {
		if _, err := headroom.Client(p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("headroom.Client: error %v, want %s", err, want)
		}
		if _, _, err := open.Client(t.Context(), "memory:", p, nil); err == nil || p != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("open.Client: error %v, want %s", err, want)
		}
	}
}
