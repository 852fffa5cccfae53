package otel_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/observe/otel"
	"github.com/headroom-quota/headroom/quota/observe/prom"
)

// The span of a call that went to another upstream says where, and has the pool there. The metric counts it.
func TestSpilledCalls(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  west: {hosts: [west.test], spill: east, pools: {calls: {quota: 1, windows: [{per: 24h}]}}, methods: {ask: {route: GET /ask, cost: 1}}}
  east: {hosts: [east.test], pools: {units: {quota: 9, windows: [{per: 24h}]}}, methods: {ask: {route: GET /ask, cost: 3}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	counted, recorder := prom.New(), tracetest.NewSpanRecorder()
	ledger, err := quota.New(costs, memstore.New(nil), &quota.Options{Observer: counted})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := meter.New(ledger, &meter.Options{Base: offline{}})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: otel.Calls(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"), ledger, transport)}
	for range 2 {
		resp, err := client.Get("https://west.test/ask")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	var said []string
	for _, span := range recorder.Ended() {
		text := ""
		for _, a := range span.Attributes() {
			if slices.Contains([]string{"headroom.pool", "headroom.units", "headroom.spilled_to"}, string(a.Key)) {
				text += fmt.Sprint(" ", a.Value.AsInterface())
			}
		}
		said = append(said, text)
	}
	if want := []string{" 1 west/calls", " 3 east/units east"}; !slices.Equal(said, want) {
		t.Errorf("the spans say %q, want %q", said, want)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted)
	metrics, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range metrics {
		if family.GetName() == "headroom_spilled_calls_total" {
			m := family.GetMetric()
			if len(m) != 1 || m[0].GetCounter().GetValue() != 1 || m[0].GetLabel()[0].GetValue()+m[0].GetLabel()[1].GetValue() != "eastwest" {
				t.Errorf("counted %v", m)
			}
			return
		}
	}
	t.Error("no call that spilled was counted")
}
