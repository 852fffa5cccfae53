package otel_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/observe/otel"
)

type offline struct{}

func (offline) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// A call has a span, which the events of its reservation are in.
func ExampleCalls() {
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  maps:
    hosts: [maps.example.com]
    pools: {units: {quota: 1, windows: [{per: 24h}]}}
    methods: {geocode: {route: GET /geocode, pool: units, cost: 1}}
`), nil)
	if err != nil {
		log.Fatal(err)
	}
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("example")
	ledger, err := quota.New(costs, memstore.New(nil), &quota.Options{Observer: otel.Observer()})
	if err != nil {
		log.Fatal(err)
	}
	transport, err := meter.New(ledger, &meter.Options{Base: offline{}, Refused: meter.As429})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: otel.Calls(tracer, ledger, transport)}
	for range 2 {
		req, _ := http.NewRequestWithContext(context.Background(), "GET", "https://maps.example.com/geocode", nil)
		resp, err := client.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
	}
	for _, span := range recorder.Ended() {
		for _, event := range span.Events() {
			fmt.Println(span.Name(), event.Name, event.Attributes[0].Value.AsString())
		}
	}
	// Output:
	// geocode headroom.granted maps/units
	// geocode headroom.refused maps/units
}
