package youtube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/api/option"
	sdk "google.golang.org/api/youtube/v3"
)

const (
	// google is where the API is if nothing else is said. It is always said to the
	// SDK: left to itself it goes by variables of the environment.
	google = "https://youtube.googleapis.com/"
	// most is how many the upstream gives a page, and how many ids it takes.
	most = 50
)

// Options are what [New] can be told; nil is legal.
type Options struct {
	// Endpoint is the URL before youtube/v3, for tests and simulations; empty is
	// Google's.
	Endpoint string
	// UserAgent is added to that of the SDK; empty adds nothing.
	UserAgent string
}

// Client fetches pages. It is safe for concurrent use.
type Client struct{ api *sdk.Service }

// New returns a client whose calls are made by another: one that adds the API key
// and has units reserved. Without one they would be made behind the ledger's back.
func New(client *http.Client, o *Options) (*Client, error) {
	if client == nil {
		return nil, errors.New("youtube: no http client was given; give one that meters its calls")
	}
	if o == nil {
		o = &Options{}
	}
	base, err := endpoint(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("youtube: endpoint: %w", err)
	}
	// Given a client, the SDK ignores all options about keys and does not say so.
	api, err := sdk.NewService(context.Background(),
		option.WithHTTPClient(recorded(client)), option.WithoutAuthentication(), option.WithEndpoint(base))
	if err != nil {
		return nil, fmt.Errorf("youtube: %w", err)
	}
	api.UserAgent = o.UserAgent // an option would be ignored too
	return &Client{api: api}, nil
}

// endpoint makes of a URL what the SDK resolves its paths against.
func endpoint(given string) (string, error) {
	if given == "" {
		return google, nil
	}
	u, err := url.Parse(given)
	switch {
	case err != nil:
		return "", errors.New("it is no URL; write it as https://host:port/") // which may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("%q has no scheme and host; write it as https://host:port/", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("it has more than a host and path: %s; keys and passwords do not belong there", u.Host)
	}
	return strings.TrimSuffix(u.String(), "/") + "/", nil
}
