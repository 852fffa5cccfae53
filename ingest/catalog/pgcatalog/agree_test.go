package pgcatalog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
	"github.com/headroom-quota/headroom/quota"
)

// writer makes texts of few words, so that many videos share them.
type writer struct{ *rand.Rand }

var (
	spaced = strings.Fields("crème brûlée Straßenbahn Köln İstanbul ёлка новый δρόμος مُوسِيقَى שָׁלוֹם हिन्दी k-pop C++ live in concert " +
		"official video 2026 4K iPhone15 phở Łódź cafe\u0301 ＡＢＣ rock'n'roll #shorts don't")
	unspaced = []rune("東京都日本語夜景歩散首都北旅游攻略周杰伦晴天官方音乐한국노래방모음タワーニュースがくเพลงไทยเพราะความสุข")
	emoji    = []string{"🔥", "❤️", "🇩🇪", "👍🏽", "👩‍👩‍👧‍👦", "🏴‍☠️"}
)

func (w writer) text(most int) string {
	var b strings.Builder
	for range w.IntN(most + 1) {
		switch w.IntN(6) {
		case 0, 1, 2:
			b.WriteString(spaced[w.IntN(len(spaced))])
		case 3, 4:
			for range 1 + w.IntN(6) {
				b.WriteRune(unspaced[w.IntN(len(unspaced))])
			}
		case 5:
			b.WriteString(emoji[w.IntN(len(emoji))])
		}
		b.WriteString([]string{" ", " ", " ", "", ", ", "\n"}[w.IntN(6)])
	}
	return b.String()
}

// part returns a part of a text, as a person may type it.
func (w writer) part(text string) string {
	chars := []rune(text)
	if len(chars) == 0 {
		return ""
	}
	from := w.IntN(len(chars))
	return string(chars[from:min(len(chars), from+1+w.IntN(12))])
}

func (w writer) query(all []catalog.Video) string {
	v := all[w.IntN(len(all))]
	pick := func() string {
		return w.part([]string{v.Title, v.Description, v.ChannelTitle, strings.Join(v.Tags, " ")}[w.IntN(4)])
	}
	switch w.IntN(6) {
	case 0:
		return pick()
	case 1:
		return `"` + pick() + `"`
	case 2:
		return pick() + " " + pick()
	case 3:
		return pick() + "* " + pick()
	case 4:
		return `"` + pick() + `" ` + pick()
	}
	return w.text(3)
}

func (w writer) videos(count int) (all []catalog.Video) {
	for i := range count {
		v := catalog.Video{
			ID: fmt.Sprintf("v%05d", i), Title: w.text(8), Description: w.text(60), ChannelTitle: w.text(2),
			PublishedAt: time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC),
		}
		for range w.IntN(4) {
			v.Tags = append(v.Tags, w.text(2)+"x")
		}
		if i%200 == 0 { // more words than an index has positions for
			v.Description = strings.Repeat(w.text(3)+" あああ ", 300) + w.text(60)
		}
		all = append(all, v)
	}
	return all
}

// scaled returns the reduced count, or the full count in a soak test.
func scaled(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

// fill saves videos, and some of them again for a region.
func fill(t *testing.T, c catalogtest.Catalog, videos []catalog.Video) {
	t.Helper()
	r, err := c.Begin(ctx, catalog.Start{Job: "trending"})
	if err != nil {
		t.Fatal(err)
	}
	for n, some := range slices.Collect(slices.Chunk(videos, 50)) {
		region := []string{"", "DE", "JP"}[n%3]
		_, err := r.Save(ctx, &catalog.Page{Cursor: catalog.Cursor{Job: "trending", Work: some[0].ID}, Done: true, Region: region, Videos: some})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// found returns all that a search finds, page by page, sorted.
func found(t *testing.T, c catalogtest.Catalog, q catalog.Query) (all []string) {
	t.Helper()
	for q.Limit = 100; ; {
		r, err := c.Search(ctx, q)
		if err != nil {
			t.Fatalf("search %q: %v", q.Text, err)
		}
		for _, h := range r.Hits {
			all = append(all, h.Video.ID)
		}
		if q.Cursor = r.Cursor; q.Cursor == "" {
			slices.Sort(all)
			return all
		}
	}
}

// TestSearchAgrees asks both homes the same, and reads the texts as well.
func TestSearchAgrees(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := writer{rand.New(rand.NewPCG(seed, 0))}
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	ours := open(t, clock)
	file, err := catalog.Open(ctx, filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	videos := w.videos(scaled(1500, 10_000))
	fill(t, ours, videos)
	fill(t, file, videos)

	pairs := map[string]bool{}
	for len(pairs) < 160 {
		text := string([]rune{unspaced[w.IntN(20)], unspaced[w.IntN(20)]})
		pairs[text] = true
	}
	var queries []catalog.Query
	for _, text := range slices.Sorted(maps.Keys(pairs)) {
		queries = append(queries, catalog.Query{Text: text})
	}
	for range scaled(160, 4000) {
		q := catalog.Query{Text: w.query(videos)}
		switch w.IntN(4) {
		case 0:
			q.Region = "DE"
		case 1:
			q.Since = time.Date(2026, 1, 1, 20, 0, 0, 0, time.UTC)
		}
		queries = append(queries, q)
	}
	wrong, some, full := 0, 0, 0
	for i, q := range queries {
		want, got := found(t, file, q), found(t, ours, q)
		if len(want) == 500 && len(got) == 500 { // a search ends there, and each home ranks as it likes
			full++
			continue
		}
		if len(want) > 0 {
			some++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			wrong++
			t.Errorf("search %q in %q (-file +ours):\n%s", q.Text, q.Region, diff)
		}
		if i >= 160 {
			continue
		}
		var read []string
		for _, v := range videos {
			if catalogtest.Found(words.Parse(q.Text), v.Title, v.ChannelTitle, v.Description, strings.Join(v.Tags, "\n")) {
				read = append(read, v.ID)
			}
		}
		if diff := cmp.Diff(read, got); diff != "" {
			t.Errorf("search %q (-texts +ours):\n%s", q.Text, diff)
		}
	}
	t.Logf("%d wrong of %d searches; %d found something, and %d more than is shown", wrong, len(queries), some, full)
	if some < len(queries)/6 || full > len(queries)/3 { // a soak has more videos, and so more that find too many
		t.Error("too few searches say anything")
	}
	if problems, err := ours.Check(ctx); err != nil || problems != nil {
		t.Error(problems, err)
	}
}

// TestSearchOfCommonWordsAgrees asks both homes for words that more videos have than a search
// ranks. They look at the same ones.
func TestSearchOfCommonWordsAgrees(t *testing.T) {
	t.Parallel()
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	ours := open(t, clock)
	file, err := catalog.Open(ctx, filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	var videos []catalog.Video
	for n := range firstPart + catalog.MaxRanked {
		v := catalog.Video{ID: fmt.Sprintf("v%05d", n), Title: fmt.Sprintf("all tenth%d", n%10), PublishedAt: time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC)}
		videos = append(videos, v)
	}
	for _, c := range []catalogtest.Catalog{ours, file} {
		r, err := c.Begin(ctx, catalog.Start{Job: "trending"})
		if err != nil {
			t.Fatal(err)
		}
		region := "GB"
		for _, some := range slices.Collect(slices.Chunk(videos, 500)) {
			_, err := r.Save(ctx, &catalog.Page{Cursor: catalog.Cursor{Job: "trending", Work: some[0].ID}, Done: true, Region: region, Videos: some})
			if err != nil {
				t.Fatal(err)
			}
			region = "US"
		}
	}
	for _, tt := range []struct {
		q   catalog.Query
		n   int
		cut bool
	}{
		{catalog.Query{Text: "all", Since: videos[len(videos)-100].PublishedAt}, 100, true},
		{catalog.Query{Text: "all", Region: "GB"}, 0, true}, // those of GB were added first
		{catalog.Query{Text: "tenth3"}, len(videos) / 10, false},
		{catalog.Query{Text: "all tenth3", Region: "GB"}, 50, false},
		{catalog.Query{Text: "nothing"}, 0, false},
	} {
		for name, c := range map[string]catalogtest.Catalog{"file": file, "ours": ours} {
			r, err := c.Search(ctx, tt.q)
			if got := found(t, c, tt.q); err != nil || len(got) != tt.n || r.Cut != tt.cut {
				t.Errorf("%s: %+v: %d found, cut %v, %v; want %d, %v", name, tt.q, len(got), r.Cut, err, tt.n, tt.cut)
			}
		}
		if diff := cmp.Diff(found(t, file, tt.q), found(t, ours, tt.q)); diff != "" {
			t.Errorf("%+v (-file +ours):\n%s", tt.q, diff)
		}
	}
}
