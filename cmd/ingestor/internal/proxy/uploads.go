package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
)

// Chunks of a resumable upload are free, and nothing else is. So the proxy signs each address
// of an upload that an upstream names in the answer to a call that was charged. A chunk needs
// that signature. No list of uploads is kept, and an upload outlives a restart of the proxy.

const (
	// uploadParam holds the signature in the query of an upload's address. It stays here.
	uploadParam = "headroom_upload"
	// uploadLife is how long an address may be used. Google's uploads live as long.
	uploadLife = 7 * 24 * time.Hour
)

var errNoUpload = refusef(http.StatusNotFound, "upload", "this proxy has not begun this upload for the token, or it began more than a week ago; begin the upload again")

// upload identifies an address of an upload. All of it counts: the id of one upload must not
// make calls of other methods free.
func (c *call) upload(host, path, query string) string {
	query = c.query(query)
	if values, err := url.ParseQuery(query); err == nil {
		query = values.Encode()
	}
	return strings.Join([]string{c.upstream.Name, c.account(), host, path, query}, "\n")
}

// signature returns the signature of an upload's address, which ends at an instant.
func (h *Handler) signature(c *call, upload string, until int64) string {
	end := strconv.FormatInt(until, 10)
	mac := hmac.New(sha256.New, h.set.UploadKey)
	_, _ = io.WriteString(mac, c.token.Name()+"\n"+end+"\n"+upload) // it never fails
	return end + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// begun reports whether a chunk goes to an address that this proxy has signed for the token.
func (h *Handler) begun(c *call) bool {
	signed := c.signed()
	end, _, _ := strings.Cut(signed, ".")
	until, err := strconv.ParseInt(end, 10, 64)
	if err != nil || h.set.Clock.Now().Unix() >= until {
		return false
	}
	return hmac.Equal([]byte(signed), []byte(h.signature(c, c.upload(c.host, c.path, c.request.URL.RawQuery), until)))
}

func (c *call) signed() string { return c.request.URL.Query().Get(uploadParam) }

// resumes reports whether the meter may take a call for a chunk of an upload, which is free.
func (c *call) resumes() bool {
	return len(c.request.Header["Content-Range"]) > 0 && c.names(c.request.URL.RawQuery)
}

func (c *call) names(query string) bool {
	_, has := content.Param(query, c.upstream.Resumable)
	return has && c.upstream.Resumable != ""
}

// signUploads signs the addresses of uploads in an answer of the upstream. A request that has
// an id itself begins none: the upstream may just repeat it. To a chunk it may repeat the
// address of the chunk, where the program then goes on.
func (h *Handler) signUploads(c *call, resp *http.Response) {
	verb, query := c.request.Method, c.request.URL.RawQuery
	begins := resp.StatusCode/100 == 2 && (verb == http.MethodPost || verb == http.MethodPut) && !c.names(query)
	if !begins && !c.resumes() {
		return
	}
	until := h.set.Clock.Now().Add(uploadLife).Unix()
	for _, name := range []string{"Location", "X-Goog-Upload-Url", "X-Goog-Upload-Control-Url"} {
		for i, address := range resp.Header[name] {
			to, err := c.base().Parse(address)
			if err != nil || !c.names(to.RawQuery) {
				continue
			}
			host, ours := c.reaches(to)
			upload, signed := c.upload(host, escapedPath(to), to.RawQuery), c.signed()
			switch {
			case !ours, !begins && upload != c.upload(c.host, c.path, query):
				continue
			case begins:
				signed = h.signature(c, upload, until)
			}
			to.RawQuery += "&" + uploadParam + "=" + signed
			resp.Header[name][i] = to.String()
		}
	}
}

// single refuses a request that servers may read as another call than the one that is
// priced. The meter does so too, but not for upstreams that are only observed.
func (c *call) single() error {
	if hint := content.Diverted(c.request.Header, c.request.Method, c.path, c.match.TakesAny()); hint != "" {
		return &quota.UnpricedError{Upstream: c.upstream.Name, Method: calledMethod(c), Hint: hint}
	}
	return nil
}
