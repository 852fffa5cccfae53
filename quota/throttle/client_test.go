package throttle_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota/throttle"
)

// trusted are the proxies of these tests.
var trusted = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48"),
	netip.MustParsePrefix("::ffff:192.168.0.0/112"),
}

func TestClient(t *testing.T) {
	plain := newRig(t, &throttle.Options{TrustedProxies: trusted}).limiter
	rfc := newRig(t, &throttle.Options{TrustedProxies: trusted, ProxyHeader: "forwarded"}).limiter
	for _, tt := range []struct {
		name, from, header string // lines of the header, between newlines
		by                 *throttle.Throttle
		want               string
	}{
		{"no_proxy", "203.0.113.7:80", "", plain, "203.0.113.7"},
		{"a_client_that_says_so_itself", "203.0.113.7:80", "198.51.100.1", plain, "203.0.113.7"},
		{"a_proxy", "10.0.0.1:80", "203.0.113.7", plain, "203.0.113.7"},
		{"a_proxy_that_says_nothing", "10.0.0.1:80", "", plain, "10.0.0.1"},
		{"what_the_client_wrote_before_the_proxy", "10.0.0.1:80", "1.2.3.4, 203.0.113.7", plain, "203.0.113.7"},
		{"two_proxies", "10.0.0.1:80", "1.2.3.4, 203.0.113.7 ,\t10.0.0.2", plain, "203.0.113.7"},
		{"two_lines", "10.0.0.1:80", "1.2.3.4\n203.0.113.7, 10.0.0.3\n10.0.0.2", plain, "203.0.113.7"},
		{"proxies_all_the_way", "10.0.0.1:80", "10.0.0.3, 10.0.0.2", plain, "10.0.0.3"},
		{"malformed_is_the_last_proxy", "10.0.0.1:80", "203.0.113.7, nobody, 10.0.0.2", plain, "10.0.0.2"},
		{"an_empty_element_is_malformed", "10.0.0.1:80", "203.0.113.7,, 10.0.0.2", plain, "10.0.0.2"},
		{"an_empty_line_is_malformed", "10.0.0.1:80", "203.0.113.7\n ", plain, "10.0.0.1"},
		{"malformed_beyond_the_client", "10.0.0.1:80", "'; drop, 203.0.113.7", plain, "203.0.113.7"},
		{"with_a_port", "10.0.0.1:80", "203.0.113.7:4711", plain, "203.0.113.7"},
		{"ipv6", "[2001:db8:ffff::1]:80", "2001:db8:7::1", plain, "2001:db8:7::1"},
		{"ipv6_in_brackets", "10.0.0.1:80", "[2001:db8:7::1]", plain, "2001:db8:7::1"},
		{"ipv6_with_a_port", "10.0.0.1:80", "[2001:db8:7::1]:4711", plain, "2001:db8:7::1"},
		{"ipv4_in_brackets_is_malformed", "10.0.0.1:80", "[203.0.113.7]", plain, "10.0.0.1"},
		{"ipv4_mapped", "[::ffff:10.0.0.1]:80", "::ffff:203.0.113.7", plain, "203.0.113.7"},
		{"a_mapped_prefix", "192.168.0.9:80", "203.0.113.7", plain, "203.0.113.7"},
		{"zones_are_left_out", "[2001:db8:ffff::1%eth0]:80", "fe80::1%eth1", plain, "fe80::1"},
		{"other_notations_are_malformed", "10.0.0.1:80", "0x7f.1", plain, "10.0.0.1"},
		{"a_unix_socket", "@", "203.0.113.7", plain, "invalid IP"},
		{"the_other_header_is_not_read", "10.0.0.1:80", "for=203.0.113.7", plain, "10.0.0.1"},

		{"forwarded", "10.0.0.1:80", "for=203.0.113.7", rfc, "203.0.113.7"},
		{"forwarded_whole", "10.0.0.1:80", `For="[2001:db8:7::1]:4711"; proto=https;by="_x,y";host="a\"b"`, rfc, "2001:db8:7::1"},
		{"forwarded_twice", "10.0.0.1:80", `for=203.0.113.7;by=10.0.0.2, for="10.0.0.2:80"`, rfc, "203.0.113.7"},
		{"forwarded_unknown", "10.0.0.1:80", `for=203.0.113.7, for=unknown`, rfc, "10.0.0.1"},
		{"forwarded_hidden", "10.0.0.1:80", `for=_hidden`, rfc, "10.0.0.1"},
		{"forwarded_without_for", "10.0.0.1:80", `for=203.0.113.7, proto=https`, rfc, "10.0.0.1"},
		{"forwarded_for_twice", "10.0.0.1:80", `for=203.0.113.7;for=203.0.113.8`, rfc, "10.0.0.1"},
		{"forwarded_ipv6_without_brackets", "10.0.0.1:80", `for="2001:db8:7::1"`, rfc, "10.0.0.1"},
		{"a_comma_in_a_quoted_host", "10.0.0.1:80", `for=203.0.113.7;host="x, for=6.6.6.6"`, rfc, "203.0.113.7"},
		{"an_escaped_quote_in_it", "10.0.0.1:80", `for=203.0.113.7;host="x\", for=6.6.6.6;y=\""`, rfc, "203.0.113.7"},
		{"a_quote_that_the_client_left_open", "10.0.0.1:80", `for="1.2.3.4, for=203.0.113.7`, rfc, "203.0.113.7"},
		{"a_quote_never_closed", "10.0.0.1:80", `for=203.0.113.7;host="x`, rfc, "10.0.0.1"},
		{"something_behind_a_quote", "10.0.0.1:80", `for="203.0.113.7"x`, rfc, "10.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request("GET /", tt.from)
			name := "X-Forwarded-For"
			if tt.by == rfc {
				name = "Forwarded"
				r.Header.Set("X-Forwarded-For", "192.0.2.99") // of the client's own
			} else {
				r.Header.Set("Forwarded", "for=192.0.2.99")
			}
			if tt.header != "" {
				r.Header[name] = strings.Split(tt.header, "\n")
			}
			if got := tt.by.Client(r).String(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A client without a trusted proxy can never influence its key by headers.
func TestHeadersOfAClientChangeNothing(t *testing.T) {
	limiters := []*throttle.Throttle{
		newRig(t, &throttle.Options{TrustedProxies: trusted}).limiter,
		newRig(t, &throttle.Options{TrustedProxies: trusted, ProxyHeader: "Forwarded"}).limiter,
	}
	rapid.Check(t, func(t *rapid.T) {
		from := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")))
		if rapid.Bool().Draw(t, "IPv6") {
			from = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address")))
		}
		for _, p := range trusted {
			if p.Contains(from.Unmap()) || p.Contains(netip.AddrFrom16(from.As16())) {
				return
			}
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = netip.AddrPortFrom(from, 80).String()
		for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Client-Ip", "Host"} {
			r.Header[name] = rapid.SliceOfN(element, 0, 3).Draw(t, name)
		}
		for _, limiter := range limiters {
			if got := limiter.Client(r); got != from.Unmap() {
				t.Fatalf("%s, want %s: %v", got, from, r.Header)
			}
		}
	})
}

// element is what might be taken for who a client is.
var element = rapid.OneOf(
	rapid.StringMatching(`(for=)?"?\[?(10\.0\.0\.[0-9]|203\.0\.113\.[0-9]|2001:db8:ffff::[0-9]|[0-9a-f:.]{0,20})\]?(:[0-9]{1,5})?"?(, ?.{0,20})?`),
	rapid.String(),
)
