package headroom_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// A client that makes at most 100 calls a second to one host, and 10,000 a day to another. A
// call waits for up to ten seconds, and is then refused.
func ExampleClient() {
	client, err := headroom.Client(headroom.Limits{
		{Host: "api.example.com", Calls: 100, Per: time.Second},
		{Host: "maps.example.com", Calls: 10_000, Day: "America/Los_Angeles"},
	}, &meter.Options{MaxWait: 10 * time.Second, Base: exampleServer})
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Get("https://api.example.com/things")
	var refused *quota.RefusedError
	if errors.As(err, &refused) {
		fmt.Println("try again at", refused.RetryAt)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// docs/library.md shows it.
func ExampleLoad_ledger() {
	book, err := headroom.Load("") // the built-in prices; or the path of your own costs.yaml
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := quota.New(book, memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	r, err := ledger.Reserve(context.Background(), quota.Call{Method: "search.list", Job: "news"})
	var refused *quota.RefusedError
	if errors.As(err, &refused) {
		fmt.Println("try again at", refused.RetryAt) // the same call succeeds then
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d of %d used in %s, make the call\n", r.Pool, r.Used, r.Limit, r.Window)
	s, err := r.Settle(context.Background(), quota.Units{"searches": 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("charged on top:", s.Charged)
	// Output:
	// youtube/searches: 1 of 20 used in 10m, make the call
	// charged on top: 2
}

func ExampleLoad() {
	b, err := headroom.Load("") // the built-in price book
	if err != nil {
		fmt.Println(err)
		return
	}
	m := b.Match("GET", "youtube.googleapis.com", "/youtube/v3/search")
	fmt.Println(m.Upstream.Name, m.Method.Name, m.Method.Charges)
	// Output: youtube search.list map[searches:1]
}

// exampleServer answers without a network.
var exampleServer = roundTripper(func(*http.Request) *http.Response {
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusOK)
	return w.Result()
})

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req), nil }
