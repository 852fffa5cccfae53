package meter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// A REST client of one's own, of which nothing changes but the http.Client that it
// is given.
func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"title": "Momo"}`)
	}))
	defer server.Close()
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	ledger := open(clock, fmt.Sprintf(`
revision: 1
upstreams:
  books:
    hosts: [%q]
    api_key: {header: X-Api-Key}
    pools: {units: {quota: 5, windows: [{per: 1h}]}}
    methods:
      volumes.get: {route: "GET /v1/volumes/{id}", cost: 2}
`, server.Listener.Addr()))

	transport, err := meter.New(ledger, &meter.Options{
		Keys:   map[string]meter.KeySource{"books": meter.Key("your API key")},
		Logger: slog.New(slog.DiscardHandler), // by default slog.Default logs refusals
	})
	if err != nil {
		log.Fatal(err)
	}
	books := &bookClient{server.URL, &http.Client{Transport: transport}}
	for range 3 {
		title, err := books.title(context.Background(), "7")
		var refused *quota.RefusedError
		if errors.As(err, &refused) {
			fmt.Println("not sent; come again at", refused.RetryAt.Format(time.TimeOnly))
			return
		}
		fmt.Println(title, err)
	}
	// Output:
	// Momo <nil>
	// Momo <nil>
	// not sent; come again at 21:00:02
}

type bookClient struct {
	url    string
	client *http.Client
}

func (b *bookClient) title(ctx context.Context, id string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", b.url+"/v1/volumes/"+id, nil)
	if err != nil {
		return "", err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var volume struct{ Title string }
	err = json.NewDecoder(resp.Body).Decode(&volume)
	return volume.Title, err
}

// GitHub's REST API is data in the price book: 5,000 calls an hour, and how it says
// that they are used up (x-ratelimit-remaining: 0 and a time), or that they came too
// fast (Retry-After, or words).
func ExampleTransport_gitHub() {
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch calls++; calls {
		case 1: // somebody else has used the token, too
			w.Header().Set("X-Ratelimit-Remaining", "0")
			w.Header().Set("X-Ratelimit-Reset", strconv.FormatInt(clock.Now().Add(17*time.Minute).Unix(), 10))
			w.WriteHeader(http.StatusForbidden)
		case 2:
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
		case 3:
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"message": "You have exceeded a secondary rate limit."}`)
		case 4:
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"message": "Must have admin rights to Repository."}`)
		}
	}))
	defer server.Close()
	ledger := open(clock, fmt.Sprintf(`
revision: 1
upstreams:
  github:
    hosts: [%q] # api.github.com
    api_key: {header: Authorization}
    refusals:
      - {status: 401, credential: true}
      - {status: [403, 429], header: {x-ratelimit-remaining: 0}, until: x-ratelimit-reset}
      - {status: [403, 429], header: retry-after, for: 1m}
      - {status: [403, 429], body: secondary rate limit, for: 1m}
    pools:
      core: {quota: 5000, headroom: 500, windows: [{per: 1h}]}
    methods:
      repos.get: {route: "GET /repos/{owner}/{repo}", cost: 1}
      issues.create: {route: "POST /repos/{owner}/{repo}/issues", cost: 1}
`, server.Listener.Addr()))
	transport, err := meter.New(ledger, &meter.Options{
		Keys:   map[string]meter.KeySource{"github": meter.Key("Bearer your-token")},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport}

	for range 5 {
		resp, err := client.Get(server.URL + "/repos/golang/go")
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		usage, err := ledger.View().Usage(context.Background(), "github", "")
		if err != nil {
			log.Fatal(err)
		}
		if core := usage[0]; core.Blocked.IsZero() {
			fmt.Println(resp.StatusCode, "open")
		} else {
			fmt.Println(resp.StatusCode, "shut for", core.Blocked.Sub(clock.Now()), "because:", core.Reason)
			clock.Set(core.Blocked)
		}
	}
	// Output:
	// 403 shut for 17m0s because: 403 Forbidden
	// 429 shut for 1m30s because: 429 Too Many Requests
	// 403 shut for 1m0s because: You have exceeded a secondary rate limit.
	// 403 open
	// 200 open
}

// open is a ledger in memory that goes by a price book.
func open(clock quota.Clock, text string) *quota.Ledger {
	costs, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		log.Fatal(err)
	}
	return ledger
}
