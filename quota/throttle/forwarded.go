package throttle

import (
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// lastQuoted cuts off the last element of a list in which strings may be quoted. It
// reads from the right, because the end, from a trusted proxy, is valid even if the
// rest is not.
func lastQuoted(list string) (last, rest string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !escaped(list, i):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[i+1:], list[:i], true
		}
	}
	return list, "", false
}

// escaped reports whether an odd number of backslashes stands before i.
func escaped(s string, i int) bool {
	before := strings.TrimRight(s[:i], `\`)
	return (i-len(before))%2 == 1
}

// forwardedFor returns the address in an element of Forwarded (RFC 7239), such as
// for="[2001:db8::1]:4711";proto=https. It returns the zero Addr if the element is
// malformed, or has "unknown" or a name.
func forwardedFor(element string) (found netip.Addr) {
	rest := strings.Trim(element, " \t")
	for rest != "" {
		name, after, ok := strings.Cut(rest, "=")
		value, next, sound := pairValue(after)
		if !ok || !sound || !httpguts.ValidHeaderFieldName(name) {
			return netip.Addr{}
		}
		if strings.EqualFold(name, "for") {
			if found.IsValid() {
				return netip.Addr{} // two of them
			}
			if found = parseNode(value); !found.IsValid() {
				return netip.Addr{}
			}
		}
		if rest = next; rest == "" {
			break
		}
		if rest, ok = strings.CutPrefix(rest, ";"); !ok {
			return netip.Addr{}
		}
		rest = strings.Trim(rest, " \t") // some write a space there
	}
	return found
}

// parseNode reads an address like parseAddress, but requires brackets around IPv6.
func parseNode(s string) netip.Addr {
	if strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[") {
		return netip.Addr{}
	}
	return parseAddress(s)
}

// pairValue reads a token or a quoted string.
func pairValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, ';')
		if end < 0 {
			end = len(s)
		}
		value = strings.TrimRight(s[:end], " \t")
		return value, s[end:], httpguts.ValidHeaderFieldName(value)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), strings.TrimLeft(s[i+1:], " \t"), true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
