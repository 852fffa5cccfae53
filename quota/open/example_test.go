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

// A program on the ledger in a file: each call of the client is reserved before it
// leaves. For a ledger that machines share, write "redis://host:6379".
func Example() {
	book := must(headroom.Load("")) // the built-in price book, or the path of yours
	opened := must(open.Open(context.Background(), "sqlite:ledger.db", &open.Options{Book: book}))
	defer opened.Close()
	keys := map[string]meter.KeySource{"youtube": meter.Key(os.Getenv("YOUTUBE_API_KEY"))}
	transport := must(meter.New(opened.Ledger, &meter.Options{Keys: keys}))
	client := &http.Client{Transport: transport}
	resp := must(client.Get("https://youtube.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular"))
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// must ends the program with the error, if there is one.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
