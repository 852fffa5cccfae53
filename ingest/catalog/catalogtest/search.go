package catalogtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

// library returns a catalog of videos in many languages.
func (h *Harness) library(t testing.TB) Catalog {
	t.Helper()
	c, _ := h.fresh(t)
	save(t, begin(t, c), "all", catalog.Page{Videos: []catalog.Video{
		{ID: "fr", Title: "Crème brûlée à l'ancienne", ChannelTitle: "Chez Zoé"},
		{ID: "de", Title: "Straßenbahn in Köln – Fahrt über die Brücke", ChannelTitle: "Öffis"},
		{ID: "tr", Title: "İstanbul'da balık ekmek", ChannelTitle: "Işık"},
		{ID: "pl", Title: "Łódź nocą", ChannelTitle: "Miasta"},
		{ID: "vi", Title: "Phở Hà Nội đặc biệt", ChannelTitle: "Ẩm thực"},
		{ID: "ru", Title: "Ёлка и Новый год", ChannelTitle: "Праздник"},
		{ID: "el", Title: "Ο δρόμος της Αθήνας", ChannelTitle: "Μουσική"},
		{ID: "ar", Title: "أغنية جديدة", Description: "مُوسِيقَى", ChannelTitle: "قناة"},
		{ID: "he", Title: "שָׁלוֹם ישראל", ChannelTitle: "ערוץ"},
		{ID: "hi", Title: "हिन्दी गाने", ChannelTitle: "संगीत"},
		{ID: "ja", Title: "東京タワーの夜景を歩く", Description: "日本の首都、東京を散歩。ﾃﾚﾋﾞ", ChannelTitle: "散歩ちゃんねる"},
		{ID: "zh", Title: "周杰伦【晴天】官方MV", Description: "北京旅游攻略", ChannelTitle: "音乐"},
		{ID: "ko", Title: "신나는 한국노래방 모음", ChannelTitle: "음악"},
		{ID: "th", Title: "เพลงไทยเพราะๆ ที่ฟังแล้วมีความสุข", ChannelTitle: "ดนตรี"},
		{ID: "nfd", Title: "Cafe\u0301 か\u3099く \u1112\u1161\u11ab\u1100\u1173\u11af"}, // as file names on a Mac
		{ID: "wide", Title: "ＡＢＣニュース ２０２６"},
		{ID: "en", Title: "K-Pop World Tour: live from New York!", Tags: []string{"C++", "rock'n'roll", "go lang"}, Description: "The iPhone15 in 4K. #shorts"},
		{ID: "emoji", Title: "Best of 🔥🔥 2026 ❤️🇩🇪 👍🏽👍"},
	}})
	return c
}

func (h *Harness) testSearch(t *testing.T) {
	c := h.library(t)
	for _, tt := range []struct {
		text string
		want string // the videos found, the best first
	}{
		{"creme brulee", "fr"},
		{"CRÈME", "fr"},
		{"l'ancienne", "fr"},
		{"zoe", "fr"},
		{"strassenbahn koln", "de"},
		{"STRASSENBAHN", "de"},
		{"Straße", "de"}, // matches as a prefix
		{"brucke uber", "de"},
		{"istanbul", "tr"},
		{"ISIK", "tr"},
		{"lodz", "pl"},
		{"pho ha noi", "vi"},
		{"dac biet", "vi"},
		{"елка", "ru"},
		{"новыи", "ru"},
		{"δρομοσ", "el"},
		{"ΑΘΗΝΑΣ", "el"},
		{"اغنية", "ar"},
		{"موسيقى", "ar"},
		{"שלום", "he"},
		{"हिन्दी", "hi"},
		{"東京", "ja"},
		{"日本", "ja"},
		{"京タ", "ja"},
		{"夜景", "ja"},
		{"歩く", "ja"},
		{"く", "ja nfd"}, // the last character of two runs
		{"タワー", "ja"},
		{"東京 散歩", "ja"},
		{"テレビ", ""}, // narrow kana have separate marks
		{"晴天", "zh"},
		{"周杰伦 mv", "zh"},
		{"官方MV", "zh"},
		{"游攻", "zh"},
		{"北京", "zh"},
		{"노래", "ko"},
		{"한국노래방", "ko"},
		{"ไทย", "th"},
		{"เพลง", "th"},
		{"ความสุข", "th"},
		{"ที่", "th"},
		{"café", "nfd"},
		{"がく", "nfd"},
		{"한글", "nfd"},
		{"abc", "wide"},
		{"ニュース", "wide"},
		{"2026", "emoji wide"},
		{"k-pop", "en"},
		{"kpop", ""},
		{"rock'n'roll", "en"},
		{"c++", "en"},
		{"iphone", "en"},
		{"#shorts", "en"},
		{"yor", "en"},            // the last word matches as a prefix
		{"yor new", ""},          // other words do not
		{"yor* new", "en"},       // unless they have a star
		{`"new york"`, "en"},     // in sequence
		{`"york new"`, ""},       //
		{`"world tou"`, ""},      // a closed quotation is no prefix
		{`"world tou`, "en"},     // an open one is
		{`live "new york`, "en"}, //
		{"live paris", ""},       // all words
		{"🔥", "emoji"},           //
		{"❤", "emoji"},           // in every variant
		{"🇩🇪", "emoji"},          //
		{"❤🇩🇪", "emoji"},
		{"👍👍", "emoji"},
		{"👍🏿", "emoji"},
		{"best of 🔥", "emoji"},    //
		{"", ""},                  //
		{" \t\n", ""},             //
		{`"`, ""},                 //
		{`""`, ""},                //
		{"*", ""},                 //
		{"title:creme", ""},       // no column
		{"creme OR koln", ""},     // no operator
		{"NEAR(creme koln)", ""},  //
		{"creme) OR (1=1", ""},    //
		{`creme" OR "koln`, ""},   //
		{"-creme", "fr"},          //
		{"^creme", "fr"},          //
		{"creme\x00brulee", "fr"}, //
		{"cr\xffeme", ""},         //
	} {
		t.Run(tt.text, func(t *testing.T) {
			r, err := c.Search(ctx, catalog.Query{Text: tt.text})
			if err != nil {
				t.Fatal(err)
			}
			got := ids(r.Hits)
			slices.Sort(got)
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
	healthy(t, c)
}

// testSearchForAWholeTitle: a pasted title is found, even if it has many pairs of characters.
func (h *Harness) testSearchForAWholeTitle(t *testing.T) {
	titles := map[string]string{
		"ja":    "【4K】東京タワーの夜景を歩く、日本の首都を散歩する長い長い動画の長い長い題名であって、それでもまだまだ終わらない百文字の題名をここに貼り付けて検索しても必ず見つかるはずです【作業用】",
		"th":    "เพลงไทยเพราะๆที่ฟังแล้วมีความสุขและทำให้นึกถึงวันเก่าๆของเราที่เคยเดินด้วยกันในกรุงเทพมหานครอมรรัตนโกสินทร์",
		"ko":    "신나는 한국 노래방 모음 가나다라마바사아자차카타파하 거너더러머버서어저처커터퍼허 고노도로모보소오조초코토포호 구누두루무부수우주추쿠투푸후",
		"en":    strings.Repeat("the long and winding road ", 20),
		"mixed": "BTS (방탄소년단) '작은 것들을 위한 시 (Boy With Luv) (feat. Halsey)' Official MV 日本語字幕 ไทยซับ 🔥🔥",
	}
	c, _ := h.fresh(t)
	for id, title := range titles {
		save(t, begin(t, c), id, catalog.Page{Videos: []catalog.Video{{ID: id, Title: title}, {ID: id + "2", Title: "other"}}})
	}
	for id, title := range titles {
		for _, text := range []string{title, `"` + title + `"`, strings.ToUpper(title)} {
			r, err := c.Search(ctx, catalog.Query{Text: text})
			if err != nil || len(r.Hits) != 1 || r.Hits[0].Video.ID != id {
				t.Errorf("%s: %d hits, %v", text, len(r.Hits), err)
			}
		}
	}
}

func (h *Harness) testSearchRanks(t *testing.T) {
	c, _ := h.fresh(t)
	save(t, begin(t, c), "all", catalog.Page{Videos: []catalog.Video{
		{ID: "description", Title: "Something else entirely", Description: "travel"},
		{ID: "begins", Title: "Travelling around the world"},
		{ID: "tag", Title: "Something else entirely", Tags: []string{"travel"}},
		{ID: "title", Title: "Travel around the world"},
		{ID: "channel", Title: "Something else entirely", ChannelTitle: "Travel"},
	}})
	r, err := c.Search(ctx, catalog.Query{Text: "travel"})
	if want := []string{"title", "channel", "tag", "description", "begins"}; err != nil || !slices.Equal(ids(r.Hits), want) {
		t.Errorf("got %v, %v, want %v", ids(r.Hits), err, want)
	}
}

func (h *Harness) testSearchFilters(t *testing.T) {
	c, _ := h.fresh(t)
	r := begin(t, c)
	for i, region := range []string{"DE", "FR", "DE"} {
		v := catalog.Video{ID: fmt.Sprint(i), Title: "cat", PublishedAt: noon.Add(time.Duration(i) * time.Hour)}
		save(t, r, region, catalog.Page{Region: region, Videos: []catalog.Video{v}})
	}
	for _, tt := range []struct {
		q    catalog.Query
		want string
	}{
		{catalog.Query{}, "0 1 2"},
		{catalog.Query{Region: "DE"}, "0 2"},
		{catalog.Query{Region: "de'--"}, ""},
		{catalog.Query{Since: noon.Add(time.Hour)}, "1 2"},
		{catalog.Query{Since: noon.Add(time.Hour), Region: "DE"}, "2"},
		{catalog.Query{Limit: 2}, "0 1"},
		{catalog.Query{Limit: -1}, "0 1 2"},
	} {
		tt.q.Text = "cat"
		r, err := c.Search(ctx, tt.q)
		if got := strings.Join(ids(r.Hits), " "); err != nil || got != tt.want {
			t.Errorf("%+v: got %q, %v, want %q", tt.q, got, err, tt.want)
		}
	}
}

func (h *Harness) testSearchPages(t *testing.T) {
	c, _ := h.fresh(t)
	r := begin(t, c)
	var videos []catalog.Video
	for i := range 120 {
		videos = append(videos, catalog.Video{ID: fmt.Sprintf("old%03d", i), Title: strings.Repeat("dog ", i%7) + "cat"})
	}
	save(t, r, "a", catalog.Page{Videos: videos})
	seen := map[string]int{}
	q := catalog.Query{Text: "cat", Limit: 11}
	for n := 0; ; n++ {
		found, err := c.Search(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids(found.Hits) {
			seen[id]++
		}
		if found.Cursor == "" {
			break
		}
		q.Cursor = found.Cursor
		// The catalog changes meanwhile, and with it the rank of every word.
		save(t, r, "b", catalog.Page{Videos: []catalog.Video{{ID: fmt.Sprintf("new%d", n), Title: "cat cat cat cat"}, {ID: fmt.Sprintf("dog%d", n), Title: "dog"}}})
	}
	for _, v := range videos {
		if seen[v.ID] != 1 {
			t.Errorf("%s was shown %d times", v.ID, seen[v.ID])
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was shown %d times", id, n)
		}
	}
}

func (h *Harness) testSearchEnds(t *testing.T) {
	c, _ := h.fresh(t)
	r := begin(t, c)
	for n := range 6 {
		var videos []catalog.Video
		for i := range 100 {
			videos = append(videos, catalog.Video{ID: fmt.Sprint(n, i), Title: "cat"})
		}
		save(t, r, "a", catalog.Page{Videos: videos})
	}
	q := catalog.Query{Text: "cat", Limit: 1000}
	hits := 0
	for {
		found, err := c.Search(ctx, q)
		if err != nil || len(found.Hits) > 100 {
			t.Fatal(len(found.Hits), err)
		}
		hits += len(found.Hits)
		if q.Cursor = found.Cursor; q.Cursor == "" {
			break
		}
		if len(q.Cursor) > 2000 {
			t.Errorf("the cursor has %d bytes", len(q.Cursor))
		}
	}
	if hits != 500 {
		t.Errorf("%d hits were shown, want 500", hits)
	}
}

func (h *Harness) testSearchRefusesABadCursor(t *testing.T) {
	c := h.library(t)
	for _, cursor := range []string{"?", "%%%", strings.Repeat("A", 700), "/////", "gICAgICAgICAgICAAQ"} {
		if _, err := c.Search(ctx, catalog.Query{Text: "cat", Cursor: cursor}); !errors.Is(err, catalog.ErrBadCursor) {
			t.Errorf("%s: %v, want %v", cursor, err, catalog.ErrBadCursor)
		}
	}
}

// Fuzz compares the index with plain text. It accepts every query, and every hit contains all
// its words.
func (h *Harness) Fuzz(f *testing.F) {
	c := h.library(f)
	for _, text := range []string{"creme", `"a b`, "東京", "ไทย*", "a AND b", "{x}:y", "(", "NEAR(a, b)", "'; --", "\x00", "\xff", "a* b*", "🔥🇩🇪", "가", strings.Repeat("a ", 1000), strings.Repeat("東", 1000)} {
		f.Add(text, text, "")
	}
	f.Fuzz(func(t *testing.T, typed, title, cursor string) {
		plain := strings.ToValidUTF8(title, "\uFFFD")
		if h.NoNUL {
			plain = strings.ReplaceAll(plain, "\x00", "\uFFFD")
		}
		found, err := c.Search(ctx, catalog.Query{Text: typed, Region: title, Cursor: cursor})
		if err != nil && !errors.Is(err, catalog.ErrBadCursor) {
			t.Fatalf("search %q: %v", typed, err)
		}
		_ = found
		r := begin(t, c)
		save(t, r, "fuzz", catalog.Page{Videos: []catalog.Video{{ID: "fuzz", Title: title, Description: title}}})
		matches := Found(words.Parse(typed), plain)
		found, err = c.Search(ctx, catalog.Query{Text: typed, Limit: 100})
		if err != nil {
			t.Fatalf("search %q: %v", typed, err)
		}
		i := slices.Index(ids(found.Hits), "fuzz")
		if (i >= 0) != matches {
			t.Fatalf("search %q in %q: found is %v, by plain text it is %v", typed, title, i >= 0, matches)
		}
		if i >= 0 && found.Hits[i].Title.String() != norm.NFC.String(plain) {
			t.Fatalf("the title %q is shown as %q", title, found.Hits[i].Title)
		}
		save(t, r, "fuzz", catalog.Page{Gone: []string{"fuzz"}})
	})
}

// A search of common words looks at a part of the videos, and says so.
func (h *Harness) testSearchIsCut(t *testing.T) {
	c, _ := h.fresh(t)
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	r := begin(t, c)
	for n := 0; n < h.Ranked+100; {
		var p catalog.Page
		for range 1010 {
			p.Videos = append(p.Videos, catalog.Video{ID: fmt.Sprint("v", n), Title: map[bool]string{true: "old common", false: "common"}[n < 50]})
			n++
		}
		save(t, r, fmt.Sprint("work", n), p)
	}
	for text, cut := range map[string]bool{"common": true, "old": false, "old common": false} {
		found, err := c.Search(t.Context(), catalog.Query{Text: text})
		if err != nil || found.Cut != cut || len(found.Hits) != 20 {
			t.Errorf("%s: %d found, cut %v, %v", text, len(found.Hits), found.Cut, err)
		}
	}
}

// Found reports whether texts contain all phrases, each phrase within one text. That is
// what an index must answer.
func Found(phrases []words.Phrase, texts ...string) bool {
	missing := slices.ContainsFunc(phrases, func(p words.Phrase) bool {
		return !slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(words.Mark(text, []words.Phrase{p}), func(s words.Segment) bool { return s.Match })
		})
	})
	return len(phrases) > 0 && !missing
}
