package youtube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// The SDK decodes a hidden count to 0, and does not show the answer that it has read. So
// the transport copies the answer of a call whose context asks for it, and the counts are
// read from the copy. No call is made twice.

// recorder is an http.RoundTripper that copies answers on request.
type recorder struct{ base http.RoundTripper }

type recordKey struct{}

// recorded returns a copy of a client that also copies answers.
func recorded(client *http.Client) *http.Client {
	copied := *client
	if copied.Transport == nil {
		copied.Transport = http.DefaultTransport
	}
	copied.Transport = recorder{copied.Transport}
	return &copied
}

// record returns a context whose calls copy their answer.
func record(ctx context.Context) (context.Context, *bytes.Buffer) {
	answer := new(bytes.Buffer)
	return context.WithValue(ctx, recordKey{}, answer), answer
}

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.base.RoundTrip(req)
	if answer, ok := req.Context().Value(recordKey{}).(*bytes.Buffer); ok && err == nil {
		answer.Reset() // the previous answer was a redirect
		resp.Body = copied{io.TeeReader(resp.Body, answer), resp.Body}
	}
	return resp, err
}

type copied struct {
	io.Reader
	io.Closer
}

// statistics reads the counts of each item from the copy of an answer. It returns nil for an
// item without counts.
func statistics(answer *bytes.Buffer) ([]*catalog.Statistics, error) {
	var list struct {
		Items []struct {
			Statistics *struct {
				Views    *int64 `json:"viewCount,string"`
				Likes    *int64 `json:"likeCount,string"`
				Comments *int64 `json:"commentCount,string"`
			} `json:"statistics"`
		} `json:"items"`
	}
	if err := json.Unmarshal(answer.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("read the statistics: %w", err)
	}
	all := make([]*catalog.Statistics, len(list.Items))
	for i := range list.Items {
		if s := list.Items[i].Statistics; s != nil {
			all[i] = &catalog.Statistics{Views: s.Views, Likes: s.Likes, Comments: s.Comments}
		}
	}
	return all, nil
}
