package open_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// A client whose calls are reserved in a ledger before they are sent. Other processes
// that open the same file share the quota. For many machines, name a server instead, as
// "redis://host:6379/0".
func Example() {
	if err := fetch(context.Background(), os.Getenv("YOUTUBE_API_KEY")); err != nil {
		log.Fatal(err)
	}
	// Output: 200 OK
}

func fetch(ctx context.Context, key string) error {
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
	client := &http.Client{Transport: transport}
	resp, err := client.Get("https://youtube.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular")
	if err != nil {
		return err
	}
	fmt.Println(resp.Status)
	return resp.Body.Close()
}
