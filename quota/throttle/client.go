package throttle

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota"
)

// Client returns the address of the client of a request, as [Address] takes it: for
// logs. An IPv4 address is one however it is written, and zones are left out. It is
// the zero Addr where the connection has no address.
func (t *Throttle) Client(r *http.Request) netip.Addr {
	if t == nil {
		return netip.Addr{}
	}
	return t.proxies.client(r)
}

// proxies finds clients behind trusted proxies.
type proxies struct {
	trusted []netip.Prefix
	header  string // canonical
	last    func(list string) (last, rest string, more bool)
	address func(element string) netip.Addr
}

func newProxies(trusted []netip.Prefix, header string) (proxies, error) {
	p := proxies{}
	for _, t := range trusted {
		if !t.IsValid() {
			return p, quota.BadInput("a trusted proxy is no valid prefix; netip.MustParsePrefix(\"10.0.0.0/8\") is one")
		}
		if a := t.Addr(); a.Is4In6() && t.Bits() >= 96 {
			t = netip.PrefixFrom(a.Unmap(), t.Bits()-96)
		}
		p.trusted = append(p.trusted, t)
	}
	switch {
	case header == "" || strings.EqualFold(header, "X-Forwarded-For"):
		p.header, p.last, p.address = "X-Forwarded-For", lastPlain, parseAddress
	case strings.EqualFold(header, "Forwarded"):
		p.header, p.last, p.address = "Forwarded", lastQuoted, forwardedFor
	default:
		return p, quota.BadInput("proxy header %.40q is neither X-Forwarded-For nor Forwarded", header)
	}
	return p, nil
}

// client walks from the connection towards the client, through trusted proxies. A
// malformed entry ends the walk at the last trusted proxy, which let it pass. It may cost
// a client its own limit, but never frees a client from one.
func (p *proxies) client(r *http.Request) netip.Addr {
	at := connection(r.RemoteAddr)
	if len(p.trusted) == 0 || !p.trusts(at) {
		return at
	}
	for _, list := range slices.Backward(r.Header[p.header]) {
		for more := true; more; {
			var element string
			element, list, more = p.last(list)
			next := p.address(element)
			if !next.IsValid() {
				return at
			}
			if at = next; !p.trusts(at) {
				return at
			}
		}
	}
	return at
}

func (p *proxies) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p.trusted, func(t netip.Prefix) bool { return t.Contains(a) })
}

func connection(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return plain(ap.Addr())
}

// plain returns one form for all spellings of an address.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// parseAddress reads an address, maybe with a port. It returns the zero Addr for
// anything else.
func parseAddress(s string) netip.Addr {
	s = strings.Trim(s, " \t")
	if a, err := netip.ParseAddr(s); err == nil {
		return plain(a)
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr())
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			if a, err := netip.ParseAddr(inner); err == nil && a.Is6() {
				return plain(a)
			}
		}
	}
	return netip.Addr{}
}

func lastPlain(list string) (last, rest string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return list, "", false
	}
	return list[i+1:], list[:i], true
}
