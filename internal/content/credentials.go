package content

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Credentials are the headers with which programs authenticate, beside that of the book.
// X-Goog-User-Project names the project that pays.
var Credentials = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Auth-Token",
	"X-Access-Token", "X-Amz-Security-Token", "X-Goog-User-Project", "X-Goog-Iam-Authorization-Token",
}

// CredentialParams are the query parameters with which programs authenticate.
var CredentialParams = []string{"access_token", "oauth_token", "api_key", "apikey"}

// FilterQuery returns a query without the parameters that drop is true of.
func FilterQuery(raw string, drop func(name, value string) bool) string {
	plain := func(text string) string {
		if plain, err := url.QueryUnescape(text); err == nil {
			return plain
		}
		return text
	}
	return strings.Join(slices.DeleteFunc(strings.Split(raw, "&"), func(part string) bool {
		name, value, _ := strings.Cut(part, "=")
		return drop(plain(name), plain(value))
	}), "&")
}

// Base64Forms returns what base64 makes of a text wherever the text stands in what is
// encoded: without the characters that also depend on its neighbours. Forms with fewer
// characters than least are left out.
func Base64Forms(text string, least int) (all []string) {
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			form := e.EncodeToString(append(make([]byte, before, before+len(text)), text...))
			first, end := (before*8+5)/6, (before+len(text))*8/6
			if end-first >= least {
				all = append(all, form[first:end])
			}
		}
	}
	return all
}

// Unescaped returns the first byte of a text and how many bytes it takes: 1, or more if it is
// written in percent encoding or as an escape of JSON.
func Unescaped[T string | []byte](text T) (c byte, n int) {
	hex := func(from, to int) bool {
		if len(text) < to {
			return false
		}
		value, err := strconv.ParseUint(string(text[from:to]), 16, 8)
		c, n = byte(value), to
		return err == nil
	}
	switch {
	case text[0] == '%' && hex(1, 3):
		return c, n
	case text[0] != '\\' || len(text) < 2:
	case text[1] == 'u' && hex(2, 6):
		return c, n
	case text[1] == '/', text[1] == '"', text[1] == '\\':
		return text[1], 2
	}
	return text[0], 1
}

// Diverted says why a server may take a request for another call than its verb and path say,
// or "". Servers that get headers as variables, as CGI does, read an underscore as a dash. Where a route
// takes any path, the request may be a batch of calls.
func Diverted(h http.Header, verb, path string, anyPath bool) string {
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
	mixed := func(kind string) bool {
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(kind)), "multipart/mixed")
	}
	if plain, err := url.PathUnescape(path); anyPath && err == nil {
		path = plain
	}
	if anyPath && (path == "/batch" || strings.HasPrefix(path, "/batch/") || slices.ContainsFunc(h["Content-Type"], mixed)) {
		return "a batch holds several calls, of which each costs; send them one by one"
	}
	return ""
}
