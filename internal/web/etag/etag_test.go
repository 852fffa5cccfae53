package etag_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headroom-quota/headroom/internal/web/etag"
)

// ask returns the answer for a body to a client with these headers If-None-Match.
func ask(body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	for _, h := range headers {
		r.Header.Add("If-None-Match", h)
	}
	w := httptest.NewRecorder()
	if !etag.NotModified(w, r, []byte(body)) {
		_, _ = w.WriteString(body)
	}
	return w
}

func TestNotModified(t *testing.T) {
	tag := ask("a page").Header().Get("ETag")
	for name, headers := range map[string][]string{
		"the tag": {tag}, "a weak tag": {"W/" + tag}, "a list": {`"other", ` + tag}, "several headers": {`"other"`, tag}, "any tag": {"*"},
	} {
		t.Run(name+" saves the body", func(t *testing.T) {
			if a := ask("a page", headers...); a.Code != http.StatusNotModified || a.Body.Len() > 0 || a.Header().Get("ETag") != tag {
				t.Errorf("%d, %q, %v", a.Code, a.Body, a.Header())
			}
		})
	}
	for name, headers := range map[string][]string{"no tag": nil, "another tag": {`"other"`}, "a part of the tag": {tag[:5]}} {
		t.Run(name+" gets the body", func(t *testing.T) {
			if a := ask("a page", headers...); a.Code != http.StatusOK || a.Body.String() != "a page" {
				t.Errorf("%d, %q", a.Code, a.Body)
			}
		})
	}
	t.Run("another body has another tag", func(t *testing.T) {
		if a := ask("another page", tag); a.Code != http.StatusOK || a.Header().Get("ETag") == tag {
			t.Errorf("%d, %v", a.Code, a.Header())
		}
	})
}
