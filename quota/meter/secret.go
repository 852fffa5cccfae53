package meter

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/content"
)

// hidden lists the texts of a call that must stay secret: its keys.
type hidden []string

// instead replaces a key.
const instead = "[key]"

// hidden returns the keys of a call that was sent: that which was put into it, and those of its caller. They
// are collected only where something might repeat them.
func (c *call) hidden() (all hidden) {
	if c.key != "" {
		all = append(all, c.key)
	}
	for name, values := range c.req.Header {
		if isCredential(name, c.upstream.Key.Header) {
			all = append(all, values...)
		}
	}
	for _, value := range all {
		scheme, credentials, is := strings.Cut(value, " ") // after Bearer
		if !is {
			continue
		}
		credentials = strings.TrimSpace(credentials)
		all = append(all, credentials)
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			all = append(all, string(plain), password)
		}
	}
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

func isCredential(name, keyHeader string) bool {
	return keyHeader != "" && strings.EqualFold(name, keyHeader) || strings.EqualFold(name, "Authorization")
}

// hasCredential reports whether a request has a key of the caller's own.
func hasCredential(h http.Header, keyHeader string) bool {
	for name := range h {
		if isCredential(name, keyHeader) {
			return true
		}
	}
	return false
}

// hide replaces the hidden texts in a text, also in their usual encodings. A text that has
// one in another encoding is replaced whole.
func (h hidden) hide(text string) string {
	for _, secret := range h {
		for _, s := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			text = strings.ReplaceAll(text, s, instead)
		}
	}
	if h.in(text) {
		return instead
	}
	return text
}

const (
	// leastSecret is the length below which a key is too much like any other text to be found.
	leastSecret = 4
	// mostUnescaped is how often a text is unescaped in search of a key.
	mostUnescaped = 8
)

// in reports whether a text has one of the hidden texts, in whatever case and however it is
// encoded: in percent encoding or with escapes of JSON, repeatedly and in part, in base64 or
// in hexadecimal.
func (h hidden) in(text string) bool {
	if text == "" {
		return false
	}
	var forms []string
	for _, secret := range h {
		if len(secret) >= leastSecret {
			forms = append(forms, strings.ToLower(secret), hex.EncodeToString([]byte(secret)))
			for _, form := range content.Base64Forms(secret, leastSecret) {
				forms = append(forms, strings.ToLower(form))
			}
		}
	}
	for range mostUnescaped {
		lower := strings.ToLower(text)
		for _, form := range forms {
			if strings.Contains(lower, form) {
				return true
			}
		}
		plain := unescape(text)
		if plain == text {
			return false
		}
		text = plain
	}
	return true // nobody encodes as often without a purpose
}

// unescape removes the percent encoding of a text, and the escapes of JSON. It keeps a % and
// a backslash that encode nothing.
func unescape(text string) string {
	if !strings.ContainsAny(text, `%\\`) {
		return text
	}
	var out strings.Builder
	for text != "" {
		c, n := content.Unescaped(text)
		out.WriteByte(c)
		text = text[n:]
	}
	return out.String()
}

func (c *call) hides() bool { return c.key != "" || hasCredential(c.req.Header, c.upstream.Key.Header) }

// clean returns an error of a base transport without the key. net/http quotes what it
// cannot read of an answer: a Content-Length, a line of the header, a chunk's length, the
// last words of an HTTP/2 server.
func (c *call) clean(err error) error {
	if err == nil || err == io.EOF || !c.hides() { //nolint:errorlint // a reader returns it as it is
		return err
	}
	text, all := err.Error(), c.hidden()
	if !all.in(text) {
		return err
	}
	var timeout net.Error
	return &cleanError{
		text:    all.hide(strings.ToValidUTF8(text, "")),
		is:      func(target error) bool { return errors.Is(err, target) },
		timeout: errors.As(err, &timeout) && timeout.Timeout(),
	}
}

// cleanError stands for an error that had a key in its text. It does not wrap that error,
// because %#v would print it.
type cleanError struct {
	text    string
	is      func(target error) bool
	timeout bool
}

func (e *cleanError) Error() string        { return e.text }
func (e *cleanError) Is(target error) bool { return e.is(target) }
func (e *cleanError) Timeout() bool        { return e.timeout }

// secretBody is the body of an answer. Its errors hold no key.
type secretBody struct {
	io.ReadCloser
	of *call
}

func (b *secretBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, b.of.clean(err)
}

// urlHeaders are the headers of answers that hold URLs, which clients follow and log.
var urlHeaders = []string{"Location", "Content-Location", "Link", "Refresh"}

// guard makes an answer safe: its body's errors, and the URLs in its header, hold no key.
// A redirect to a URL with the key in it is an error, because net/http would follow it and
// show the URL in its own errors.
func (c *call) guard(resp *http.Response) error {
	redirects := resp.StatusCode/100 == 3
	hides := c.hides()
	if !hides && !redirects {
		return nil
	}
	if to, err := resp.Location(); redirects && c.spilled != "" && err == nil { // the client would send the credentials of the first upstream there
		return &RedirectError{Upstream: c.upstream.Name, From: c.req.URL.Scheme + "://" + hostOf(c.req.URL), To: to.Scheme + "://" + hostOf(to)}
	}
	if hides && resp.Body != nil {
		c.body = secretBody{resp.Body, c}
		if w, is := resp.Body.(io.Writer); is && resp.StatusCode == http.StatusSwitchingProtocols {
			resp.Body = &stream{&c.body, w}
		} else {
			resp.Body = &c.body
		}
	}
	for _, name := range urlHeaders {
		if values := resp.Header[name]; len(values) > 0 {
			if err := c.guardURLs(values, redirects && name == "Location"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *call) guardURLs(values []string, redirects bool) error {
	all := c.hidden()
	for i, value := range values {
		_, query, _ := strings.Cut(value, "?")
		param := c.upstream.Key.Query != "" && hasParam(query, c.upstream.Key.Query)
		switch {
		case redirects && (param || all.in(value)):
			return &RedirectError{Upstream: c.upstream.Name, From: c.req.URL.Scheme + "://" + hostOf(c.req.URL), WithKey: true}
		case all.in(value):
			values[i] = all.hide(value)
		}
	}
	return nil
}

// checkCarrier returns an error if a key would be sent in plain text. The call is not one over TLS.
func (c *call) checkCarrier() error {
	req := c.req
	if c.key == "" && (c.upstream.Key.Header == "" || !hasCredential(req.Header, c.upstream.Key.Header)) {
		return nil
	}
	bad := func(reason string) error {
		return &CredentialError{Upstream: c.upstream.Name, Account: c.account, Reason: reason}
	}
	if !loopback(req.URL.Hostname()) {
		return bad("the address is http://" + hostOf(req.URL) + ", and a key is sent over TLS only; write https://")
	}
	if base, is := c.t.set.Base.(*http.Transport); is && base.Proxy != nil {
		if proxy, err := base.Proxy(req); err == nil && proxy != nil && !loopback(proxy.Hostname()) {
			return bad("the address is http://" + hostOf(req.URL) + ", and a proxy would see the key; call it without the proxy")
		}
	}
	return nil
}

func loopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
