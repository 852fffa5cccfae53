package traces

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// variable is the value of a standard variable for traces, or else of the one for all
// signals, and the name of that which is set.
func variable(signal, general string) (name, value string) {
	for _, name := range []string{signal, general} {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			return name, value
		}
	}
	return "", ""
}

// wanted reports whether the environment asks for traces; its error says why they
// cannot be had, and what to do.
func wanted() (bool, error) {
	name, endpoint := variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	off := strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true")
	exporter := cmp.Or(strings.TrimSpace(os.Getenv("OTEL_TRACES_EXPORTER")), "otlp")
	if endpoint == "" || off || exporter == "none" {
		return false, nil
	}
	if exporter != "otlp" {
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %.40q, and there is otlp only; unset it, or write none", exporter)
	}
	if by, protocol := variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); by != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("%s is %.40q, and there is http/protobuf only; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, and %s to where the collector takes that, mostly its port 4318", by, protocol, name)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" { // not shown: it may have a password
		return false, fmt.Errorf("%s is no URL; write it as http://localhost:4318", name)
	}
	return true, nil
}
