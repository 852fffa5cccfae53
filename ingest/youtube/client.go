package youtube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"google.golang.org/api/option"
	sdk "google.golang.org/api/youtube/v3"
)

const (
	// google is the address of the API. It is always given to the SDK, which
	// would otherwise read variables of the environment.
	google = "https://youtube.googleapis.com/"
	// most is the number of items of a page, and of ids in a call.
	most = 50
)

// Options are the options of [New]. Nil is legal.
type Options struct {
	// UserAgent is added to the user agent of the SDK. It may be empty.
	UserAgent string
}

// Client fetches pages. It is safe for concurrent use.
type Client struct{ api *sdk.Service }

// New returns a client that makes its calls through an http.Client, which adds the API key
// and reserves units. It returns an error if client is nil, because such calls would bypass
// the ledger.
func New(client *http.Client, o *Options) (*Client, error) {
	if client == nil {
		return nil, errors.New("youtube: the http client is nil; use one that meters its calls")
	}
	o = cmp.Or(o, &Options{})
	// With a client, the SDK silently ignores all options about keys.
	api, err := sdk.NewService(context.Background(),
		option.WithHTTPClient(recorded(client)), option.WithoutAuthentication(), option.WithEndpoint(google))
	if err != nil {
		return nil, fmt.Errorf("youtube: %w", err)
	}
	api.UserAgent = o.UserAgent // an option would be ignored too
	return &Client{api: api}, nil
}

// The SDK decodes a hidden count to 0, and does not show the answer that it has read. So
// the transport copies the answer of a call whose context asks for it, and the counts are
// read from the copy. No call is made twice.

// recorder is an http.RoundTripper that copies answers on request.
type recorder struct{ base http.RoundTripper }

type recordKey struct{}

// recorded returns a copy of a client that also copies answers.
func recorded(client *http.Client) *http.Client {
	copied := *client
	copied.Transport = recorder{cmp.Or(client.Transport, http.DefaultTransport)}
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
