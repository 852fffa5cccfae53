package youtube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
)

func TestNew(t *testing.T) {
	t.Run("only the client that is given makes calls", func(t *testing.T) {
		if c, err := youtube.New(nil, nil); err == nil {
			t.Errorf("%v would call by itself", c)
		}
	})
	t.Run("endpoint", func(t *testing.T) {
		// none of these says where to go
		t.Setenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "example.org")
		t.Setenv("GOOGLE_API_USE_MTLS_ENDPOINT", "always")
		t.Setenv("GOOGLE_API_KEY", secret)
		var got *http.Request
		c, err := youtube.New(&http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			got = r
			return answer(r, `{"kind":"youtube#listed"}`), nil
		})}, &youtube.Options{UserAgent: "ingestor/1"})
		if err == nil {
			_, err = c.Videos(ctx, []string{"a"})
		}
		if err != nil {
			t.Fatal(err)
		}
		if at, _, _ := strings.Cut(got.URL.String(), "?"); at != "https://youtube.googleapis.com/youtube/v3/videos" {
			t.Errorf("called %s", at)
		}
		if got.URL.Query().Has("key") || len(got.Header["X-Goog-Api-Key"]) > 0 || len(got.Header["Authorization"]) > 0 {
			t.Errorf("the key is the transport's: %s", got.URL)
		}
		if agent := got.Header.Get("User-Agent"); !strings.HasSuffix(agent, " ingestor/1") {
			t.Errorf("it is %q", agent)
		}
	})
	t.Run("the client that is given stays as it was", func(t *testing.T) {
		given := &http.Client{}
		if _, err := youtube.New(given, nil); err != nil || given.Transport != nil {
			t.Errorf("%+v, %v", given, err)
		}
	})
}

// Any answer of the upstream results in an error or a page.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`, `{"items":null}`, `{"items":[null,{},{"id":"a"},{"id":{"videoId":"a"}}]}`, `{"items":{}}`,
		`{"kind":"youtube#listed","items":[{"id":"a","snippet":{"title":"t","publishedAt":"x"},"contentDetails":{"duration":"P1W"},"statistics":{}}],"nextPageToken":"n"}`,
		`{"items":[{"statistics":{"viewCount":"1"}}],"items":[{},{}]}`, `{"Items":[{}],"items":null}`,
		`{"kind":"youtube#listed","items":[{"id":"a","snippet":{},"statistics":{"viewCount":7}}]}`, `{"items":[{"id":"a","snippet":{},"statistics":{"viewCount":"-"}}]}`,
		`{"items":[{"id":"a","snippet":{},"statistics":{"viewCount":"99999999999999999999"}}]}`,
		`{"error":{"code":404,"errors":[{"reason":"notFound"}]}}`, `{"error":{"code":400,"errors":[]}}`, `{"error":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c := newClient(t, &http.Client{Transport: answers(body)}, "")
		for method, call := range every {
			for _, at := range []catalog.Cursor{{}, {Page: 1, Token: "page=2&token=a"}, {Page: 1, Token: "playlist=UU&token=b"}} {
				p, err := call(ctx, c, at)
				if (p == nil) == (err == nil) {
					t.Errorf("%s: %v, %v", method, p, err)
				}
				if p != nil && p.Done != (p.Next == "") {
					t.Errorf("%s: done %t, next %q", method, p.Done, p.Next)
				}
			}
		}
	})
}
