package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// ownHeaders keep browsers from doing anything with an answer.
var ownHeaders = map[string]string{
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// removed reports whether a header of a request stays here.
func (c *call) removed(name string) bool {
	key := c.upstream.Key
	switch {
	case strings.EqualFold(name, key.Header):
		return !key.Pass
	case strings.Contains(name, "_"): // servers that get headers as variables read it as the one with dashes
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		return strings.EqualFold(name, c.upstream.AccountFrom.Header) || strings.EqualFold(name, key.Header) || c.removed(name)
	case c.upgrades() && (strings.HasPrefix(name, "Sec-Websocket-") || name == "Upgrade" || name == "Connection"): // httputil has left only what an upgrade needs
		return false
	case strings.HasPrefix(name, labelPrefix), strings.HasPrefix(name, "Sec-"), strings.HasPrefix(name, "X-Forwarded-"):
		return true
	}
	switch name {
	case "Origin", "Referer", "Forwarded", "Via", "X-Real-Ip", "Upgrade", "Connection", "Http2-Settings", "Accept-Encoding", "Access-Control-Request-Method", "Access-Control-Request-Headers":
		return true
	}
	return slices.Contains(content.Credentials, name)
}

func rewrite(p *httputil.ProxyRequest) {
	c, out := callOf(p.In.Context()), p.Out
	path, _ := url.PathUnescape(c.path) // find has read it
	out.URL = &url.URL{Scheme: c.scheme(), Host: c.host, Path: path, RawPath: c.path, RawQuery: c.query(out.URL.RawQuery)}
	out.Host = ""
	if name := c.upstream.AccountFrom.Header; name != "" {
		// Connection may have named it. The upstream must count for the account that is charged.
		if values := p.In.Header.Values(name); len(values) > 0 {
			out.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	maps.DeleteFunc(out.Header, func(name string, values []string) bool {
		return c.removed(http.CanonicalHeaderKey(name)) || slices.ContainsFunc(values, c.isToken)
	})
	if out.Header.Get("Range") != "" { // the transport asks for no encoding then, so a server may choose one
		out.Header.Set("Accept-Encoding", "identity")
	}
	if out.Body != nil {
		c.out.ReadCloser = out.Body
		out.Body = &c.out
	}
	c.passTrailers(p.In, out)
}

func (c *call) query(raw string) string {
	return content.FilterQuery(raw, func(name, value string) bool {
		return name != "" && name == c.upstream.Key.Query || name == uploadParam || c.isToken(value) || slices.Contains(content.CredentialParams, strings.ToLower(name))
	})
}

func (c *call) passTrailers(in, out *http.Request) {
	out.Trailer = nil
	for name := range in.Trailer {
		if !c.removed(name) {
			if out.Trailer == nil {
				out.Trailer = http.Header{}
			}
			out.Trailer[name] = nil
		}
	}
	if out.Trailer != nil && out.Body != nil {
		out.Body = &trailedBody{out.Body, in, out.Trailer}
	}
}

// trailedBody is a body that fills in the trailers when it ends.
type trailedBody struct {
	io.ReadCloser
	in *http.Request
	to http.Header
}

func (b *trailedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		for name := range b.to {
			b.to[name] = b.in.Trailer[name]
		}
	}
	return n, err
}

// dropped are the headers of answers that are about the upstream's own site.
var dropped = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Public-Key-Pins", "Alt-Svc", "Nel", "Report-To",
	"Reporting-Endpoints", "Timing-Allow-Origin", "Service-Worker-Allowed", "Sourcemap", "X-Frame-Options", "X-Xss-Protection",
	"Content-Security-Policy-Report-Only", "Proxy-Authenticate", "Www-Authenticate", "Expect-Ct", "Origin-Agent-Cluster",
}

// answered makes an answer of the upstream one of the proxy.
func (h *Handler) answered(resp *http.Response) error {
	c := callOf(resp.Request.Context())
	if refused := h.shutBy(c, resp); refused != nil {
		h.set.Told(refused, refused.RetryAt)
	} else {
		h.set.Told(nil, time.Time{})
	}
	changed := resp.StatusCode == http.StatusSwitchingProtocols
	if changed && !c.upgrades() {
		return refusef(http.StatusBadGateway, "upstream", "the upstream changed the protocol")
	}
	maps.DeleteFunc(resp.Header, func(name string, _ []string) bool {
		return drops(name) || strings.HasPrefix(http.CanonicalHeaderKey(name), labelPrefix) && meter.RefusalOf(resp) == nil && (c.format == "" || name != meter.SpilledHeader)
	})
	h.signUploads(c, resp)
	if err := c.readdress(resp); err != nil || changed { // the frames of a WebSocket are not text to look through
		return err
	}
	if err := c.readdressBody(resp); err != nil {
		return err
	}
	return h.hide(c, resp)
}

// drops reports whether a header of an answer stays here.
func drops(name string) bool {
	name = http.CanonicalHeaderKey(name)
	_, own := ownHeaders[name]
	return own || slices.Contains(dropped, name) || strings.HasPrefix(name, "Access-Control-") || strings.HasPrefix(name, "Cross-Origin-")
}

// dropTrailers removes from the trailers of an answer what its header must not have. The header
// itself is sent already.
func dropTrailers(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		plain := strings.TrimPrefix(name, http.TrailerPrefix)
		return drops(plain) || strings.HasPrefix(http.CanonicalHeaderKey(plain), labelPrefix)
	})
}

// shutBy returns the refusal that others get, if the upstream refused a call for lack of
// units. The transport has then shut the pools of the call.
func (h *Handler) shutBy(c *call, resp *http.Response) *quota.RefusedError {
	if c.match.Method == nil || resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	_, err := h.ledger.Check(resp.Request.Context(), quota.Call{
		Upstream: c.upstream.Name, Account: c.account(), Method: c.method(), Class: c.labels.Class,
	})
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || !refused.Blocked && !h.shut(resp.Request.Context(), c) {
		return nil
	}
	return refused
}

// shut reports whether a pool of a call is shut. The ledger's refusal names only what lasts
// longest, which may be a window that the answer has filled.
func (h *Handler) shut(ctx context.Context, c *call) bool {
	all, err := h.ledger.View().Usage(ctx, c.upstream.Name, c.account())
	return err == nil && slices.ContainsFunc(all, func(u quota.Usage) bool {
		_, charged := c.match.Method.Charges[u.Pool.Name]
		return charged && !u.Blocked.IsZero()
	})
}

// addresses are the headers that hold addresses of the upstream's hosts.
var addresses = []string{"Location", "Content-Location", "Link", "X-Goog-Upload-Url", "X-Goog-Upload-Control-Url"}

// readdress makes the addresses in an answer those of the proxy, so that the next page, a
// redirect and the chunks of an upload are metered, too. A redirect to a host that the price
// book does not name is an error.
func (c *call) readdress(resp *http.Response) error {
	for _, name := range addresses {
		values := resp.Header[name]
		for i, value := range values {
			switch {
			case name == "Link":
				values[i] = c.links(value)
			default:
				moved, err := c.moved(value, name == "Location" && resp.StatusCode/100 == 3)
				if err != nil {
					return err
				}
				values[i] = moved
			}
		}
	}
	return nil
}

// mostAddressed bounds the answers in which addresses are looked for.
const mostAddressed = 1 << 20

// addressed is a field of JSON that holds an address, which may have escapes.
var addressed = regexp.MustCompile(`"([A-Za-z0-9_-]+)"\s*:\s*("https?:(?:[^"\\]|\\.)*")`)

// readdressBody is readdress for the fields of an answer in JSON that the price book names.
func (c *call) readdressBody(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if len(c.upstream.Addresses) == 0 || kind != "application/json" || c.request.Method == http.MethodHead || resp.Header.Get("Content-Encoding") != "" {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAddressed+1))
	if err != nil {
		return err
	}
	rest := resp.Body
	if len(text) <= mostAddressed {
		text = addressed.ReplaceAllFunc(text, func(field []byte) []byte {
			part, address := addressed.FindSubmatch(field), ""
			if !slices.Contains(c.upstream.Addresses, string(part[1])) || json.Unmarshal(part[2], &address) != nil {
				return field
			}
			moved, err := c.moved(address, false)
			if err != nil || moved == address {
				return field
			}
			quoted, _ := json.Marshal(moved) // it never fails
			return append(slices.Clone(bytes.TrimSuffix(field, part[2])), quoted...)
		})
		if resp.ContentLength >= 0 {
			resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
		}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), rest}
	return nil
}

// links rewrites the addresses in a header Link: each stands between < and >.
func (c *call) links(value string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(value, "<")
		address, after, closed := strings.Cut(rest, ">")
		if !found || !closed {
			return out.String() + value
		}
		if moved, err := c.moved(address, false); err == nil {
			address = moved
		}
		out.WriteString(before + "<" + address + ">")
		value = after
	}
}

// moved returns the address at the proxy of what an upstream names. Other addresses stay as
// they are, unless the answer redirects to them.
func (c *call) moved(address string, redirects bool) (string, error) {
	from := c.base()
	to, err := from.Parse(address)
	if err != nil {
		if redirects {
			return "", &meter.RedirectError{Upstream: c.upstream.Name, From: from.Scheme + "://" + from.Host, To: "an address that cannot be read"}
		}
		return address, nil
	}
	host, ours := c.reaches(to)
	switch {
	case ours:
		segment := c.segment
		if host != c.host {
			segment = c.upstream.Name + "@" + host
		}
		moved := "/" + segment + escapedPath(to)
		if to.RawQuery != "" {
			moved += "?" + to.RawQuery
		}
		if to.Fragment != "" {
			moved += "#" + to.EscapedFragment()
		}
		return c.origin() + moved, nil
	case !redirects, to.Scheme == "https" && (c.upstream.MayRedirect(host) || observes(c.upstream)):
		return address, nil
	}
	return "", &meter.RedirectError{Upstream: c.upstream.Name, From: from.Scheme + "://" + from.Host, To: to.Scheme + "://" + to.Host}
}

// base is the address that those in answers are relative to.
func (c *call) base() *url.URL { return &url.URL{Scheme: c.scheme(), Host: c.host, Path: c.path} }

// reaches reports whether an address is one of the call's upstream, and returns its host.
func (c *call) reaches(to *url.URL) (host string, ours bool) {
	host = strings.ToLower(strings.TrimSuffix(to.Host, usualPort[to.Scheme]))
	m := c.costs.Match(http.MethodGet, host, escapedPath(to))
	return host, m.Upstream == c.upstream && c.upstream.Listed(host) != "" && to.Scheme == schemeOf(host)
}

var usualPort = map[string]string{"http": ":80", "https": ":443"}

func escapedPath(u *url.URL) string { return cmp.Or(u.EscapedPath(), "/") }

// origin returns the address of the proxy, as the program knows it.
func (c *call) origin() string {
	if c.request.TLS != nil {
		return "https://" + c.request.Host
	}
	return "http://" + c.request.Host
}

// answer is an answer to a program. Interim answers of the upstream are not passed
// on: their headers would have to be made those of the proxy, too.
type answer struct{ http.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if status < http.StatusOK {
		return
	}
	h := a.Header()
	for name, value := range ownHeaders {
		h.Set(name, value)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
