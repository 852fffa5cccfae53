// Package etag saves a server from sending a body that the client already has.
package etag

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// NotModified sets the ETag of an answer to a GET request. If the client has this body, it
// writes status 304 and returns true: the answer is complete.
func NotModified(w http.ResponseWriter, r *http.Request, body []byte) bool {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	if !names(r.Header.Values("If-None-Match"), tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// names reports whether If-None-Match names a tag. Our tags contain no comma.
func names(headers []string, tag string) bool {
	for _, list := range headers {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimSpace(t)
			if t == "*" || strings.TrimPrefix(t, "W/") == tag {
				return true
			}
		}
	}
	return false
}
