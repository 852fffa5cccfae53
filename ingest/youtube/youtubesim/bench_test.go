package youtubesim_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// nowhere is a client that reads nothing.
type nowhere struct {
	header http.Header
	bytes  int64
}

func (n *nowhere) Header() http.Header { return n.header }
func (n *nowhere) WriteHeader(int)     {}
func (n *nowhere) Write(b []byte) (int, error) {
	n.bytes += int64(len(b))
	return len(b), nil
}

// BenchmarkPage is what a page of 50 costs without the network.
func BenchmarkPage(b *testing.B) {
	all := youtubesim.Quota{youtubesim.Default: 1 << 40, youtubesim.SearchList: 1 << 40}
	sim := youtubesim.New(&youtubesim.Options{Seed: 1, Quota: all, Clock: at(noon).Now})
	for _, c := range []struct {
		name, path string
		params     url.Values
	}{
		{"chart", "videos", params("part", "snippet,contentDetails,statistics")},
		{"chart with fields", "videos", params("part", "snippet,contentDetails,statistics", "fields", "nextPageToken,items(id,snippet(title,channelId,publishedAt),statistics)")},
		{"search", "search", params("part", "snippet", "q", "football", "type", "video", "order", "date")},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := with(c.params, "key", "k", "maxResults", "50", "prettyPrint", "false")
			if c.path == "videos" {
				p = with(p, "chart", "mostPopular")
			}
			r := httptest.NewRequest(http.MethodGet, "/youtube/v3/"+c.path+"?"+p.Encode(), nil)
			w := &nowhere{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				sim.ServeHTTP(w, r)
			}
			b.SetBytes(w.bytes / int64(b.N))
		})
	}
}
