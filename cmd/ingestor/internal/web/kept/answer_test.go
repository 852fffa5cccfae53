package kept_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
)

// send sends an answer to a client with these headers, pairs of name and value.
func send(a *kept.Answer, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.Send(w, r)
	return w
}

func page(body string) *kept.Answer {
	return kept.New(http.Header{"Content-Type": {"text/plain"}}, []byte(body))
}

func TestNotModified(t *testing.T) {
	a := page("a page")
	tag := send(a).Header().Get("ETag")
	for name, headers := range map[string][]string{
		"the tag": {tag}, "a weak tag": {"W/" + tag}, "a list": {`"other", ` + tag}, "several headers": {`"other"`, tag}, "any tag": {"*"},
	} {
		t.Run(name+" saves the body", func(t *testing.T) {
			var pairs []string
			for _, h := range headers {
				pairs = append(pairs, "If-None-Match", h)
			}
			if w := send(a, pairs...); w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("ETag") != tag || w.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%d, %q, %v", w.Code, w.Body, w.Header())
			}
		})
	}
	for _, tags := range []string{"", `"other"`, tag[:5]} {
		if w := send(a, "If-None-Match", tags); w.Code != http.StatusOK || w.Body.String() != "a page" || w.Header().Get("Content-Length") != "6" {
			t.Errorf("to the tags %s: %d, %q", tags, w.Code, w.Body)
		}
	}
	if w := send(page("another page"), "If-None-Match", tag); w.Code != http.StatusOK || w.Header().Get("ETag") == tag {
		t.Errorf("another body has the same tag: %d, %v", w.Code, w.Header())
	}
}

func TestCompressed(t *testing.T) {
	text := strings.Repeat("a page ", 1000)
	a := kept.Always(http.Header{"Content-Type": {"text/plain"}}, []byte(text))
	plain := send(a).Header().Get("ETag")
	for accepts, want := range map[string]bool{
		"": false, "gzip": true, "GZip": true, "br, gzip;q=0.5": true, "x-gzip": true, "*": true, "gzip; q=0.8, identity; q=0.2": true,
		"gzip;q=0": false, "gzip;q=0, *": false, "identity": false, "identity, gzip;q=0.5": false, "br": false, "gzip;q=x": false, "gzipped": false, "*;q=0": false,
	} {
		w := send(a, "Accept-Encoding", accepts)
		h, body := w.Header(), w.Body.Bytes()
		if length := strconv.Itoa(len(body)); h.Get("Content-Length") != length || h.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %s bytes, %v", accepts, length, h)
		}
		if got := h.Get("Content-Encoding") == "gzip"; got != want || got == (h.Get("ETag") == plain) {
			t.Errorf("%q: compressed is %v, the tag %s", accepts, got, h.Get("ETag"))
			continue
		}
		if want {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if string(body) != text {
			t.Errorf("%s: %d bytes", accepts, len(body))
		}
		if w := send(a, "Accept-Encoding", accepts, "If-None-Match", h.Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("ETag") != h.Get("ETag") || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %d, %v", accepts, w.Code, w.Header())
		}
	}
	for name, a := range map[string]*kept.Answer{
		"one that is not kept": page(text), "a short one": kept.Always(http.Header{}, []byte("a page")),
		"one that is compressed": kept.Always(http.Header{}, send(a, "Accept-Encoding", "gzip").Body.Bytes()),
	} {
		if w := send(a, "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed: %v", name, w.Header())
		}
	}
}
