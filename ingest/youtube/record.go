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

// The SDK decodes a count that is hidden to 0, and shows nobody what it had read.
// So calls whose answer has counts ask for a copy of it by their context, and the
// counts are read from there. It is the answer to the SDK's own call, taken on
// its way: nothing is called twice, and all else is left to the SDK.

// recorder is an http.RoundTripper that copies the answers that are asked for.
type recorder struct{ base http.RoundTripper }

type recordKey struct{}

// recorded returns a client that does as the given one, and copies answers.
func recorded(client *http.Client) *http.Client {
	copied := *client
	if copied.Transport == nil {
		copied.Transport = http.DefaultTransport
	}
	copied.Transport = recorder{copied.Transport}
	return &copied
}

// record asks for a copy of the answer to calls that are made with the context.
func record(ctx context.Context) (context.Context, *bytes.Buffer) {
	answer := new(bytes.Buffer)
	return context.WithValue(ctx, recordKey{}, answer), answer
}

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.base.RoundTrip(req)
	if answer, ok := req.Context().Value(recordKey{}).(*bytes.Buffer); ok && err == nil {
		answer.Reset() // what came before was a redirect
		resp.Body = copied{io.TeeReader(resp.Body, answer), resp.Body}
	}
	return resp, err
}

type copied struct {
	io.Reader
	io.Closer
}

// statistics reads the counts of each item in an answer that the SDK has read
// already; nil for an item that has none at all.
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
