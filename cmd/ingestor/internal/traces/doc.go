// Package traces sends spans to an OpenTelemetry collector. A run has a span, with a span
// for each unit of work in it, and in that one for each call of the upstream. A request to
// the server has a span, with one for its reservation.
//
// Traces are off unless OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
// names a collector. The other standard variables work, such as OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and
// OTEL_SDK_DISABLED. The protocol is http/protobuf.
//
// A collector that does not answer delays nothing. Spans wait in a bounded queue, sending
// times out after a few seconds, also on exit, and the log gets one warning.
//
// Spans hold no API key, URL, client address or fetched data. A unit of work has the same
// name as in the log, so the name of a search includes its query. Names and attributes are
// our own, such as headroom.outcome, except http.route, http.response.status_code and those
// of the resource.
package traces
