package content

import (
	"fmt"
	"net/http"
	"strings"
)

// Diverted says why a server may take a request for another call than its verb and path say,
// or "". Servers that get headers as variables, as CGI does, read an underscore as a dash.
func Diverted(h http.Header, verb string) string {
	for name, values := range h {
		if len(name) < len("X-HTTP-Method") || name[0]|0x20 != 'x' {
			continue // most of them, quickly
		}
		switch http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) {
		case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
			for _, v := range values { // a server may take any of them
				if v = strings.ToUpper(strings.TrimSpace(v)); v != "" && !strings.EqualFold(v, verb) {
					return fmt.Sprintf("a header makes another verb of it (%.20q), which may cost something else; send that verb itself", v)
				}
			}
		case "X-Original-Url", "X-Rewrite-Url":
			return "the header " + name + " makes another path of it, which may cost something else; send that path itself"
		}
	}
	return ""
}
