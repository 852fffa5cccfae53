package plan_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
)

func ExampleMake() {
	config := &ingest.Config{
		Regions: []string{"US", "DE"},
		Jobs:    map[string]ingest.Job{"trending": {Kind: ingest.Trending, Cron: "0 * * * *"}},
	}
	for _, fault := range config.Prepare() {
		log.Fatal(fault)
	}
	book, err := headroom.Load("") // the built-in prices
	if err != nil {
		log.Fatal(err)
	}
	p, err := plan.Make(context.Background(), config, book, &plan.Options{
		From: time.Date(2026, 10, 31, 19, 0, 0, 0, time.UTC), Days: 2,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range p.Pools[0].Days {
		fmt.Printf("%s, %v hours: %d units, %d left\n", d.Day, d.Hours, d.Units, d.Left)
	}
	fmt.Println("fits:", p.Fits)
	// Output:
	// 2026-10-31, 12 hours: 88 units, 9412 left
	// 2026-11-01, 25 hours: 200 units, 9300 left
	// fits: true
}
