package sdk

import (
	"context"

	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// wrap is the first example of README.md, and what the text below it adds.
func wrap(ctx context.Context, key, endpoint string, use func(*youtube.Service)) error {
	prices := headroom.File("costs.yaml") // your price book; "" is the built-in one
	keys := map[string]meter.KeySource{"youtube": meter.Key(key)}
	client, ledger, err := open.Client(ctx, "sqlite:ledger.db", prices, &meter.Options{Keys: keys})
	if err != nil {
		return err
	}
	defer ledger.Close()
	service, err := youtube.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(endpoint))
	if err != nil {
		return err
	}
	use(service)
	return nil
}
