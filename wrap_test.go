package headroom_test

import (
	"context"
	"net/http"

	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// wrap is the first example of README.md, and what the text below it adds.
func wrap(ctx context.Context, key, endpoint string, use func(*youtube.Service)) error {
	book, err := headroom.Load("costs.yaml") // your price book; "" is the built-in one
	if err != nil {
		return err
	}
	opened, err := open.Open(ctx, "sqlite:ledger.db", &open.Options{Book: book})
	if err != nil {
		return err
	}
	transport, err := meter.New(opened.Ledger, &meter.Options{Keys: map[string]meter.KeySource{"youtube": meter.Key(key)}})
	if err != nil {
		return err
	}
	defer opened.Close()
	service, err := youtube.NewService(ctx, option.WithHTTPClient(&http.Client{Transport: transport}), option.WithEndpoint(endpoint))
	if err != nil {
		return err
	}
	use(service)
	return nil
}
