package traces

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// variable returns the value and the name of the standard variable for traces or, if that
// is not set, of the one for all signals.
func variable(signal, general string) (name, value string) {
	for _, name := range []string{signal, general} {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			return name, value
		}
	}
	return "", ""
}

// wanted reports whether the environment asks for traces. Its error says which variable is
// wrong and how to fix it.
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
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" { // the value is not shown, because it may hold a password
		return false, fmt.Errorf("%s is not a URL; write it as http://localhost:4318", name)
	}
	return true, nil
}
