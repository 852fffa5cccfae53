package prom_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/observe/prom"
)

// Any program can serve the decisions of its ledger beside its own metrics.
func ExampleNew() {
	costs, err := book.Parse("costs.yaml", []byte(`{revision: 1, upstreams: {maps: {pools: {units: {quota: 2, windows: [{per: 24h}]}}, methods: {geocode: 1}}}}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	decisions := prom.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(decisions)
	ledger, err := quota.New(costs, memstore.New(nil), &quota.Options{Observer: decisions})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		_, _ = ledger.Reserve(context.Background(), quota.Call{Method: "geocode"})
	}
	metrics, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range metrics {
		if family.GetName() != "headroom_decisions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "outcome" {
					fmt.Println(label.GetValue(), m.GetCounter().GetValue())
				}
			}
		}
	}
	// Output:
	// granted 2
	// refused 1
}
