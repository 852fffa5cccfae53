package quota_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// exampleLedger is a ledger of 10 units a day that stands at noon.
func exampleLedger() (*quota.Ledger, *quota.SimClock) {
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  video:
    classes: {backfill: {keep_free: 50%}}
    pools: {units: {quota: 12, headroom: 2, windows: [{per: 24h}]}}
    methods: {list: 1, search: 4}
families:
  client: {quota: 2, windows: [{per: 60s}]}
`), nil)
	if err != nil {
		log.Fatal(err)
	}
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	ledger, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		log.Fatal(err)
	}
	return ledger, clock
}

// Reserve before the call; leave the reservation alone after it.
func ExampleLedger_Reserve() {
	ledger, _ := exampleLedger()
	ctx := context.Background()
	for {
		r, err := ledger.Reserve(ctx, quota.Call{Method: "search", Job: "news"})
		var refused *quota.RefusedError
		if errors.As(err, &refused) {
			fmt.Println("come again at", refused.RetryAt.Format(time.DateTime))
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("used %d of %d, %d left\n", r.Used, r.Limit, r.Remaining)
	}
	// Output:
	// used 4 of 10, 6 left
	// used 8 of 10, 2 left
	// come again at 2026-11-21 12:01:00
}

// Do keeps the charge unless the call provably never left.
func ExampleLedger_Do() {
	ledger, _ := exampleLedger()
	ctx := context.Background()
	err := ledger.Do(ctx, quota.Call{Method: "search"}, func(context.Context) error {
		return fmt.Errorf("no connection: %w", quota.ErrUnsent)
	})
	fmt.Println(err)
	usage, err := ledger.View().Usage(ctx, "", "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("used:", usage[0].Allowances[0].Used)
	// Output:
	// no connection: call was not sent
	// used: 0
}

// Wait waits for units to come back, if they do in time.
func ExampleLedger_Wait() {
	ledger, clock := exampleLedger()
	ctx := context.Background()
	call := quota.Call{Family: "client", Key: "203.0.113.7"}
	began := clock.Now()
	for range 3 {
		if _, err := ledger.Wait(ctx, call, 2*time.Minute); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("waited about a minute:", clock.Now().Sub(began).Round(10*time.Second))
	// Output:
	// waited about a minute: 1m0s
}

// A hold reserves a whole pass: four pages or none.
func ExampleLedger_Hold() {
	ledger, _ := exampleLedger()
	ctx := context.Background()
	hold, err := ledger.Hold(ctx, quota.Call{Method: "list", Region: "DE"}, 4)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 { // there were three pages only
		if _, err := ledger.Reserve(hold.Context(ctx), quota.Call{Method: "list"}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("left in the hold:", hold.Left()["units"])
	if err := hold.Close(ctx); err != nil {
		log.Fatal(err)
	}
	usage, err := ledger.View().Usage(ctx, "", "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("used:", usage[0].Allowances[0].Used)
	// Output:
	// left in the hold: 1
	// used: 3
}

// Settle corrects a reservation to what the call really cost, by pool.
func ExampleReservation_Settle() {
	ledger, _ := exampleLedger()
	ctx := context.Background()
	r, err := ledger.Reserve(ctx, quota.Call{Charges: map[string]int64{"units": 8}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := r.Settle(ctx, quota.Units{"units": 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("came back:", s.Back)
	// Output:
	// came back: 5
}

// A class may leave more free than ordinary callers do.
func ExampleClass() {
	ledger, _ := exampleLedger()
	ctx := context.Background()
	for {
		if _, err := ledger.Reserve(ctx, quota.Call{Method: "list", Class: "backfill"}); err != nil {
			fmt.Println(err)
			break
		}
	}
	_, err := ledger.Reserve(ctx, quota.Call{Method: "list"})
	fmt.Println("an ordinary call:", err)
	// Output:
	// reserve video/units: refused: 5 of 5 units used in 24h, 1 asked for; retry after 24h1m at 2026-11-21T12:01:00Z
	// an ordinary call: <nil>
}

// A call that costs more than is ever admitted fails loudly, instead of waiting
// for ever.
func ExampleImpossibleError() {
	ledger, _ := exampleLedger()
	_, err := ledger.Reserve(context.Background(), quota.Call{Charges: map[string]int64{"units": 11}})
	fmt.Println(errors.Is(err, quota.ErrImpossible))
	fmt.Println(err)
	// Output:
	// true
	// reserve video/units: impossible: 11 units asked for, the limit of 24h is 10
	// Ask for less, or raise the quota in costs.yaml
}

// Spend answers who spent it.
func ExampleView_Spend() {
	ledger, _ := exampleLedger()
	ctx := context.Background()
	for _, region := range []string{"DE", "FR", "DE"} {
		if _, err := ledger.Reserve(ctx, quota.Call{Method: "list", Job: "trending", Region: region}); err != nil {
			log.Fatal(err)
		}
	}
	spent, err := ledger.View().Spend(ctx, quota.SpendQuery{}, quota.ByRegion)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range spent {
		fmt.Println(s.Labels.Region, s.Units)
	}
	// Output:
	// DE 2
	// FR 1
}
