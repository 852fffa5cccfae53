package headroom_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// docs/library.md shows it.
func Example() {
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
	// Output: youtube/searches: 1 of 20 used in 10m, make the call
}
