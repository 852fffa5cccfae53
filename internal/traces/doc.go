// Package traces tells an OpenTelemetry collector what a process does: a span for each
// run, in it one for each unit of work, and in that one for each call of the upstream;
// a span for each request that a server answers, and in it one for a reservation.
//
// Nothing is made or sent, and no goroutine started, unless OTEL_EXPORTER_OTLP_ENDPOINT
// (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) names a collector. The other standard
// variables hold, such as OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and OTEL_SDK_DISABLED. It speaks
// http/protobuf.
//
// A collector that does not answer delays nothing and breaks nothing: spans wait in a
// queue that is bounded, sending is given up after a few seconds, also when the process
// leaves, and there is one warning.
//
// No span has an API key, a URL, an address of a client, or anything that was fetched.
// The name of a unit of work is as in the log, so that of a search is what it looks
// for. Names and attributes are ours: headroom.outcome and its like, but for
// http.route, http.response.status_code and what a resource has.
package traces
