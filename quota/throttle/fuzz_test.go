package throttle_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/throttle"
)

// Headers that a client writes never hide the address that a trusted proxy adds. Without
// a trusted proxy they are ignored.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		"", "203.0.113.7", "1.2.3.4, 10.0.0.1", "[2001:db8::1]:80", "::ffff:1.2.3.4%eth0", ",,", "for=1.2.3.4", `for="[::1]:80";by=_x`,
		`for="1.2.3.4`, `for="x, for=6.6.6.6`, `\`, `"\`, `x", for=6.6.6.6;host="`, `x\", for=6.6.6.6;y=\"`, `for=6.6.6.6;;`, "for=1;for=2", `=`, `;`,
	} {
		f.Add(s)
	}
	plain := newRig(f, &throttle.Options{TrustedProxies: trusted}).limiter
	rfc := newRig(f, &throttle.Options{TrustedProxies: trusted, ProxyHeader: "Forwarded"}).limiter
	client, proxy := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("10.0.0.1")
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, wrote string) {
		says := func(by *throttle.Throttle, from netip.Addr, lines ...string) netip.Addr {
			r := request("GET /", netip.AddrPortFrom(from, 80).String())
			r.Header["X-Forwarded-For"], r.Header["Forwarded"] = lines, lines
			return by.Client(r)
		}
		for _, by := range []*throttle.Throttle{plain, rfc} {
			if got := says(by, client, wrote); got != client {
				t.Errorf("without a proxy %s is taken for %s", client, got)
			}
			if got := says(by, proxy, wrote); !got.IsValid() || got.Is4In6() || got.Zone() != "" {
				t.Errorf("behind a proxy a client is taken for %s", got)
			}
		}
		for _, c := range []struct {
			by    *throttle.Throttle
			lines []string
		}{
			{plain, []string{wrote + ", 203.0.113.7"}},
			{plain, []string{wrote, "203.0.113.7"}},
			{plain, []string{wrote + ",203.0.113.7:4711 ,10.0.0.2"}},
			{rfc, []string{wrote + ", for=203.0.113.7;proto=https"}},
			{rfc, []string{wrote, `For="203.0.113.7:4711"`}},
			{rfc, []string{wrote + `, for=203.0.113.7;host="` + escape.Replace(wrote) + `"`}},
			{rfc, []string{`for="203.0.113.7"; host="` + escape.Replace(wrote) + `" ;by=_x,for=10.0.0.2`}},
		} {
			if got := says(c.by, proxy, c.lines...); got != client {
				t.Errorf("the proxy says %s, %q makes it %s", client, c.lines, got)
			}
		}
	})
}
