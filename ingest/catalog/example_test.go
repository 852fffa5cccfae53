package catalog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "catalog")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cat, err := catalog.Open(ctx, filepath.Join(dir, "catalog.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cat.Close() }()

	run, err := cat.Begin(ctx, catalog.Start{Job: "trending"})
	if err != nil {
		log.Fatal(err)
	}
	pages := [][]catalog.Video{
		{{ID: "a", Title: "東京タワー <live>"}, {ID: "b", Title: "Crème brûlée"}},
		{{ID: "c", Title: "Cremeschnitten"}},
	}
	cur, err := cat.Cursor(ctx, "trending", "JP") // where it stopped
	if err != nil {
		log.Fatal(err)
	}
	for more := true; more; {
		p := catalog.Page{Cursor: cur, Region: "JP", Chart: true, Videos: pages[cur.Page], Units: 1}
		if p.Done = int(cur.Page) == len(pages)-1; !p.Done {
			p.Next = "the next page's token"
		}
		saved, err := run.Save(ctx, &p)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("new:", saved.New)
		cur, more = saved.Cursor, !p.Done
	}

	for _, typed := range []string{"東京", "creme"} {
		found, err := cat.Search(ctx, catalog.Query{Text: typed, Region: "JP"})
		if err != nil {
			log.Fatal(err)
		}
		for _, hit := range found.Hits {
			for _, s := range hit.Title {
				if s.Match {
					fmt.Print("[", s.Text, "]")
				} else {
					fmt.Print(s.Text)
				}
			}
			fmt.Println()
		}
	}
	// Output:
	// new: 2
	// new: 1
	// [東京]タワー <live>
	// [Crème] brûlée
	// [Cremeschnitten]
}
