package throttle

import (
	"mime"
	"net/netip"
	"strings"
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
// malformed, or has "unknown" or a name. Its pairs are written like the parameters of a media type.
func forwardedFor(element string) netip.Addr {
	_, pairs, err := mime.ParseMediaType("element/forwarded;" + strings.NewReplacer("\r", " ", "\n", " ").Replace(element))
	node := pairs["for"]
	if err != nil || strings.Count(node, ":") > 1 && !strings.HasPrefix(node, "[") { // IPv6 needs brackets
		return netip.Addr{}
	}
	return parseAddress(node)
}
