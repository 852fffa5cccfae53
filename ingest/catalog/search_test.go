package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// library returns a catalog of videos in many languages.
func library(t testing.TB) *Catalog {
	t.Helper()
	c, _ := fresh(t)
	save(t, begin(t, c), "all", Page{Videos: []Video{
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

func TestSearch(t *testing.T) {
	c := library(t)
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
			r, err := c.Search(ctx, Query{Text: tt.text})
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

// TestSearchForAWholeTitle: a pasted title is found, even if it has many pairs of characters.
func TestSearchForAWholeTitle(t *testing.T) {
	titles := map[string]string{
		"ja":    "【4K】東京タワーの夜景を歩く、日本の首都を散歩する長い長い動画の長い長い題名であって、それでもまだまだ終わらない百文字の題名をここに貼り付けて検索しても必ず見つかるはずです【作業用】",
		"th":    "เพลงไทยเพราะๆที่ฟังแล้วมีความสุขและทำให้นึกถึงวันเก่าๆของเราที่เคยเดินด้วยกันในกรุงเทพมหานครอมรรัตนโกสินทร์",
		"ko":    "신나는 한국 노래방 모음 가나다라마바사아자차카타파하 거너더러머버서어저처커터퍼허 고노도로모보소오조초코토포호 구누두루무부수우주추쿠투푸후",
		"en":    strings.Repeat("the long and winding road ", 20),
		"mixed": "BTS (방탄소년단) '작은 것들을 위한 시 (Boy With Luv) (feat. Halsey)' Official MV 日本語字幕 ไทยซับ 🔥🔥",
	}
	c, _ := fresh(t)
	for id, title := range titles {
		save(t, begin(t, c), id, Page{Videos: []Video{{ID: id, Title: title}, {ID: id + "2", Title: "other"}}})
	}
	for id, title := range titles {
		for _, text := range []string{title, `"` + title + `"`, strings.ToUpper(title)} {
			r, err := c.Search(ctx, Query{Text: text})
			if err != nil || len(r.Hits) != 1 || r.Hits[0].Video.ID != id {
				t.Errorf("%s: %d hits, %v", text, len(r.Hits), err)
			}
		}
	}
}

func TestSearchRanks(t *testing.T) {
	c, _ := fresh(t)
	save(t, begin(t, c), "all", Page{Videos: []Video{
		{ID: "description", Title: "Something else entirely", Description: "travel"},
		{ID: "begins", Title: "Travelling around the world"},
		{ID: "tag", Title: "Something else entirely", Tags: []string{"travel"}},
		{ID: "title", Title: "Travel around the world"},
		{ID: "channel", Title: "Something else entirely", ChannelTitle: "Travel"},
	}})
	r, err := c.Search(ctx, Query{Text: "travel"})
	if want := []string{"title", "channel", "tag", "description", "begins"}; err != nil || !slices.Equal(ids(r.Hits), want) {
		t.Errorf("got %v, %v, want %v", ids(r.Hits), err, want)
	}
}

func TestSearchFilters(t *testing.T) {
	c, _ := fresh(t)
	r := begin(t, c)
	for i, region := range []string{"DE", "FR", "DE"} {
		v := Video{ID: fmt.Sprint(i), Title: "cat", PublishedAt: noon.Add(time.Duration(i) * time.Hour)}
		save(t, r, region, Page{Region: region, Videos: []Video{v}})
	}
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{}, "0 1 2"},
		{Query{Region: "DE"}, "0 2"},
		{Query{Region: "de'--"}, ""},
		{Query{Since: noon.Add(time.Hour)}, "1 2"},
		{Query{Since: noon.Add(time.Hour), Region: "DE"}, "2"},
		{Query{Limit: 2}, "0 1"},
		{Query{Limit: -1}, "0 1 2"},
	} {
		tt.q.Text = "cat"
		r, err := c.Search(ctx, tt.q)
		if got := strings.Join(ids(r.Hits), " "); err != nil || got != tt.want {
			t.Errorf("%+v: got %q, %v, want %q", tt.q, got, err, tt.want)
		}
	}
}

func TestSearchPages(t *testing.T) {
	c, _ := fresh(t)
	r := begin(t, c)
	var videos []Video
	for i := range 120 {
		videos = append(videos, Video{ID: fmt.Sprintf("old%03d", i), Title: strings.Repeat("dog ", i%7) + "cat"})
	}
	save(t, r, "a", Page{Videos: videos})
	seen := map[string]int{}
	q := Query{Text: "cat", Limit: 11}
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
		save(t, r, "b", Page{Videos: []Video{{ID: fmt.Sprintf("new%d", n), Title: "cat cat cat cat"}, {ID: fmt.Sprintf("dog%d", n), Title: "dog"}}})
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

func TestSearchEnds(t *testing.T) {
	c, _ := fresh(t)
	r := begin(t, c)
	for n := range 6 {
		var videos []Video
		for i := range 100 {
			videos = append(videos, Video{ID: fmt.Sprint(n, i), Title: "cat"})
		}
		save(t, r, "a", Page{Videos: videos})
	}
	q := Query{Text: "cat", Limit: 1000}
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

func TestSearchRefusesABadCursor(t *testing.T) {
	c := library(t)
	for _, cursor := range []string{"?", "%%%", strings.Repeat("A", 700), "/////", "gICAgICAgICAgICAAQ"} {
		if _, err := c.Search(ctx, Query{Text: "cat", Cursor: cursor}); !errors.Is(err, ErrBadCursor) {
			t.Errorf("%s: %v, want %v", cursor, err, ErrBadCursor)
		}
	}
}

// show writes marked text in brackets.
func (m Marked) show() string {
	var b strings.Builder
	for _, s := range m {
		if s.Match {
			b.WriteString("[" + s.Text + "]")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

func TestMarked(t *testing.T) {
	long := strings.Repeat("Lorem ipsum dolor sit amet. ", 20)
	for _, tt := range []struct{ query, text, want string }{
		{"creme", "Crème brûlée", "[Crème] brûlée"},
		{"creme bru", "Crème brûlée", "[Crème] [brûlée]"},
		{`"creme brulee"`, "Crème brûlée et crème", "[Crème brûlée] et crème"},
		{"東京", "在東京塔", "在[東京]塔"},
		{"東京タワー", "東京タワーの夜景、東京", "[東京タワー]の夜景、東京"},
		{"東京 京都", "東京都", "[東京都]"},
		{"京", "東京都と京", "東[京]都と[京]"},
		{"ไทย", "เพลงไทย", "เพลง[ไทย]"},
		{"노래", "한국노래방", "한국[노래]방"},
		{"b", "<b>bold</b>", "<[b]>bold</[b]>"},
		{"cafe", "Cafe\u0301!", "[Café]!"},
		{"x", "", ""},
		{"x", long + "x", "…sit amet. Lorem ipsum dolor sit amet. [x]"},
		{"x y", "x " + long + "x y " + long, "…sit amet. Lorem ipsum dolor sit amet. [x] [y] " + strings.Repeat("Lorem ipsum dolor sit amet. ", 3) + "Lorem ipsum dolor sit amet…"},
		{"x", long, strings.Repeat("Lorem ipsum dolor sit amet. ", 5) + "Lorem ipsum dolor…"},
		{
			"東京", strings.Repeat("日本の首都は", 50) + "東京です" + strings.Repeat("ね", 200),
			"…の首都は" + strings.Repeat("日本の首都は", 6) + "[東京]です" + strings.Repeat("ね", 116) + "…",
		},
	} {
		phrases := parse(tt.query)
		if got := snippet(tt.text, phrases).show(); got != tt.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.query, got, tt.want)
		}
	}
}

// FuzzSearch compares the index with plain text. FTS5 accepts every query, and every hit
// contains all its words.
func FuzzSearch(f *testing.F) {
	c := library(f)
	for _, text := range []string{"creme", `"a b`, "東京", "ไทย*", "a AND b", "{x}:y", "(", "NEAR(a, b)", "'; --", "\x00", "\xff", "a* b*", "🔥🇩🇪", "가", strings.Repeat("a ", 1000), strings.Repeat("東", 1000)} {
		f.Add(text, text, "")
	}
	f.Fuzz(func(t *testing.T, typed, title, cursor string) {
		found, err := c.Search(ctx, Query{Text: typed, Region: title, Cursor: cursor})
		if err != nil && !errors.Is(err, ErrBadCursor) {
			t.Fatalf("search %q: %v", typed, err)
		}
		_ = found
		r := begin(t, c)
		save(t, r, "fuzz", Page{Videos: []Video{{ID: "fuzz", Title: title, Description: title}}})
		phrases := parse(typed)
		matches := len(phrases) > 0
		for _, p := range phrases {
			matches = matches && len(find(split(toNFC(validText(title))), []phrase{p})) > 0
		}
		found, err = c.Search(ctx, Query{Text: typed, Limit: 100})
		if err != nil {
			t.Fatalf("search %q: %v", typed, err)
		}
		i := slices.Index(ids(found.Hits), "fuzz")
		if (i >= 0) != matches {
			t.Fatalf("search %q in %q: found is %v, by plain text it is %v", typed, title, i >= 0, matches)
		}
		if i >= 0 && found.Hits[i].Title.String() != toNFC(validText(title)) {
			t.Fatalf("the title %q is shown as %q", title, found.Hits[i].Title)
		}
		save(t, r, "fuzz", Page{Gone: []string{"fuzz"}})
	})
}

// TestASearchOfCommonWordsIsCut: it looks at the videos that were added last, and says so.
func TestASearchOfCommonWordsIsCut(t *testing.T) {
	c, _ := fresh(t)
	r := begin(t, c)
	for n := 0; n < MaxRanked+100; {
		var p Page
		for range 1010 {
			p.Videos = append(p.Videos, Video{ID: fmt.Sprint("v", n), Title: map[bool]string{true: "old common", false: "common"}[n < 50]})
			n++
		}
		save(t, r, fmt.Sprint("work", n), p)
	}
	for text, cut := range map[string]bool{"common": true, "old": false, "old common": false} {
		found, err := c.Search(t.Context(), Query{Text: text})
		if err != nil || found.Cut != cut || len(found.Hits) != 20 {
			t.Errorf("%s: %d found, cut %v, %v", text, len(found.Hits), found.Cut, err)
		}
	}
	if found, err := c.Search(t.Context(), Query{Text: "common", Region: "ZZ"}); err != nil || !found.Cut || len(found.Hits) > 0 {
		t.Errorf("nothing was found among them: cut %v, %v", found.Cut, err)
	}
	// Readiness has a session of its own.
	for range sqlitefile.Readers {
		s, err := c.file.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.file.Release(s) //nolint:errcheck // it only reads
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("others who read keep readiness waiting: %v", err)
	}
}
