package headroom_test

import (
	"context"
	"net/http"
	"os"

	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// wrap is the first example of README.md.
func wrap(ctx context.Context, endpoint string, use func(*youtube.Service)) error {
	book, err := headroom.Load("costs.yaml") // your price book; "" is the built-in one
	if err != nil {
		return err
	}
	ledger, err := quota.New(book, memstore.New(nil), nil)
	if err != nil {
		return err
	}
	keys := map[string]meter.KeySource{"youtube": meter.Key(os.Getenv("YOUTUBE_API_KEY"))}
	client := &http.Client{Transport: meter.New(ledger, &meter.Options{Keys: keys})}
	service, err := youtube.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(endpoint))
	if err != nil {
		return err
	}
	use(service)
	return nil
}
