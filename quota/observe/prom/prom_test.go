package prom_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/observe/prom"
)

// TestUnmeteredHostsAreBounded: the first hosts have labels of their own, and the rest share one.
func TestUnmeteredHostsAreBounded(t *testing.T) {
	decisions := prom.New()
	for i := range 500 {
		decisions.Observe(t.Context(), quota.Event{Kind: quota.EventUnmetered, Host: fmt.Sprintf("h%d.test", i/2)})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(decisions)
	metrics, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range metrics {
		if family.GetName() != "headroom_unmetered_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "host" {
					all[label.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	if len(all) != 21 || all["h0.test"] != 2 || all["other"] != 460 {
		t.Errorf("counted %v", all)
	}
}
