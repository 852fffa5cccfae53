package throttle

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// Part is a piece of a key: [Address], [Token], [Route], [Header] or [Secret]. A key
// is its parts with a | between them. Each says what it is, but an address, which
// nothing else looks like; what is not plain ASCII in it, and | and %, is written as
// %7C. So no two combinations are one key, also of limits that share a family.
type Part struct {
	kind   kind
	header string // canonical
	prefix string // header:x-team=
}

type kind byte

const (
	_ kind = iota // the zero Part is invalid
	byAddress
	byToken
	byRoute
	byHeader
	bySecret
)

// Parts that need no name.
var (
	// Address is the client's address: 203.0.113.7, or for IPv6 2001:db8:0:1::/64.
	// See [Throttle.Client] for whose that is. Without one (a Unix socket) it is
	// "unknown".
	Address = Part{kind: byAddress}

	// Token is what stands after Bearer in Authorization, hashed: token=... as
	// [TokenKey] writes it. A request without one is known by its address instead.
	Token = Part{kind: byToken}

	// Route is the pattern of [Options.Routes] that the request matches, else the one
	// by which a ServeMux around the throttle has found it: route=GET /api/v1/search.
	// It is empty for a request without a pattern. A path is not used, because clients
	// can invent paths.
	Route = Part{kind: byRoute}
)

// Header is the value of a header, in clear: header:x-team=blue. A request without
// it is known by its address instead.
func Header(name string) Part { return ofHeader(byHeader, name) }

// Secret is the value of a header that nobody is to read, hashed as [TokenKey] does:
// header:x-api-key=token=... A request without it is known by its address instead.
func Secret(name string) Part { return ofHeader(bySecret, name) }

func ofHeader(k kind, name string) Part {
	prefix := appendEscaped([]byte("header:"), strings.ToLower(name))
	return Part{kind: k, header: textproto.CanonicalMIMEHeaderKey(name), prefix: string(prefix) + "="}
}

func (p Part) write(key []byte, q *question) []byte {
	switch p.kind {
	case byToken:
		if token := bearer(q.Header.Get("Authorization")); token != "" {
			return appendToken(key, token)
		}
	case byRoute:
		return appendEscaped(append(key, "route="...), cmp.Or(q.route, q.Pattern))
	case byHeader:
		if value := q.header(p.header); value != "" {
			return appendEscaped(append(key, p.prefix...), value)
		}
	case bySecret:
		if value := q.header(p.header); value != "" {
			return appendToken(append(key, p.prefix...), value)
		}
	}
	return q.appendAddress(key)
}

// TokenKey is the key of a limit by [Token], for limits of its own in a price book:
// token=, and 128 bits of the token's SHA-256. The token itself is in no key, log or
// store.
func TokenKey(token string) string { return string(appendToken(nil, token)) }

func appendToken(key []byte, token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.AppendEncode(append(key, "token="...), sum[:16])
}

func bearer(value string) string {
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// appendEscaped appends a client's value to a key. It escapes the value, so that it is
// printable and cannot end its part.
func appendEscaped(key []byte, value string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(value) {
		switch c := value[i]; {
		case c < ' ' || c > '~' || c == '%' || c == '|':
			key = append(key, '%', hex[c>>4], hex[c&15])
		default:
			key = append(key, c)
		}
	}
	return key
}

// question is a request with the data that its key needs.
type question struct {
	*http.Request
	throttle *Throttle
	route    string
	client   netip.Addr
	known    bool // client was looked for
}

func (q *question) key(by []Part) string {
	var room [64]byte
	key := room[:0]
	for i, p := range by {
		if i > 0 {
			key = append(key, '|')
		}
		key = p.write(key, q)
	}
	return string(key)
}

// header returns all values of a header as one string.
func (q *question) header(canonical string) string {
	switch values := q.Header[canonical]; len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	default:
		return strings.Join(values, ",")
	}
}

func (q *question) appendAddress(key []byte) []byte {
	if !q.known {
		q.client, q.known = q.throttle.proxies.client(q.Request), true
	}
	switch {
	case !q.client.IsValid():
		return append(key, "unknown"...)
	case q.client.Is4():
		return q.client.AppendTo(key)
	}
	network, err := q.client.Prefix(q.throttle.bits)
	if err != nil {
		panic(err) // New has checked the bits
	}
	return network.AppendTo(key)
}
