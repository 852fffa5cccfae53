package proxy

import (
	"cmp"
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/headroom-quota/headroom/quota"
)

// mostUploads bounds the uploads of a token that are known. The oldest are forgotten.
const mostUploads = 1024

// uploads are the addresses of uploads that upstreams have named in answers to calls that
// were charged. Their chunks are free; nothing else is.
type uploads struct {
	mu  sync.Mutex
	all map[string][][sha256.Size]byte // by the name of the token, the oldest first
}

// add notes an address.
func (u *uploads) add(token string, id [sha256.Size]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string][][sha256.Size]byte{}
	}
	known := u.all[token]
	if slices.Contains(known, id) {
		return
	}
	if len(known) >= mostUploads {
		known = slices.Delete(known, 0, 1)
	}
	u.all[token] = append(known, id)
}

// has reports whether an address is known.
func (u *uploads) has(token string, id [sha256.Size]byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.all[token], id)
}

var errNoUpload = refusef(http.StatusNotFound, "upload", "this proxy has not begun this upload for the token, or has forgotten it; begin the upload again")

// upload identifies an address of an upload. All of it counts: the id of one upload must not
// make calls of other methods free.
func (c *call) upload(host, path, query string) [sha256.Size]byte {
	values, err := url.ParseQuery(c.query(query))
	encoded := values.Encode()
	if err != nil {
		encoded = query // nobody names one like that
	}
	return sha256.Sum256([]byte(strings.Join([]string{c.upstream.Name, c.account(), host, path, encoded}, "\n")))
}

// resumes reports whether the meter may take a call for a chunk of an upload, which is free.
func (c *call) resumes() bool {
	return len(c.request.Header["Content-Range"]) > 0 && c.names(c.request.URL.RawQuery)
}

// names reports whether a query has the id of an upload.
func (c *call) names(query string) bool {
	if c.upstream.Resumable == "" {
		return false
	}
	return slices.ContainsFunc(strings.Split(query, "&"), func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		return name == c.upstream.Resumable
	})
}

// noteUploads notes the addresses of uploads in an answer of the upstream. A request that
// has an id itself begins none: the upstream may just repeat it.
func (h *Handler) noteUploads(c *call, resp *http.Response) {
	verb := c.request.Method
	if resp.StatusCode/100 != 2 || verb != http.MethodPost && verb != http.MethodPut || c.names(c.request.URL.RawQuery) {
		return
	}
	from := &url.URL{Scheme: c.scheme(), Host: c.host, Path: c.path}
	for _, name := range []string{"Location", "X-Goog-Upload-Url", "X-Goog-Upload-Control-Url"} {
		for _, address := range resp.Header[name] {
			if to, err := from.Parse(address); err == nil && c.names(to.RawQuery) {
				host := strings.ToLower(strings.TrimSuffix(to.Host, usualPort[to.Scheme]))
				h.uploads.add(c.token.Name, c.upload(host, escapedPath(to), to.RawQuery))
			}
		}
	}
}

// single refuses a request that servers may read as another call than the one that is
// priced. The meter does so too, but not for upstreams that are only observed.
func (c *call) single() error {
	for name, values := range c.request.Header {
		switch http.CanonicalHeaderKey(name) {
		case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
			for _, v := range values {
				if v = strings.TrimSpace(v); v != "" && !strings.EqualFold(v, c.request.Method) {
					return c.unpriced("a header makes another verb of it, which may cost something else; send that verb itself")
				}
			}
		}
	}
	open := c.match.Route == nil || strings.HasSuffix(c.match.Route.Path, "...}")
	mixed := slices.ContainsFunc(c.request.Header["Content-Type"], func(kind string) bool {
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(kind)), "multipart/mixed")
	})
	if open && (mixed || c.path == "/batch" || strings.HasPrefix(c.path, "/batch/")) {
		return c.unpriced("a batch holds several calls, of which each costs; send them one by one")
	}
	return nil
}

func (c *call) unpriced(hint string) error {
	return &quota.UnpricedError{Upstream: c.upstream.Name, Method: cmp.Or(c.method(), calledMethod(c)), Hint: hint}
}
