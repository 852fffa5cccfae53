package words

import (
	"strings"
	"testing"
)

// show writes marked text in brackets.
func show(m Marked) string {
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
		phrases := Parse(tt.query)
		if got := show(Snippet(tt.text, phrases)); got != tt.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.query, got, tt.want)
		}
	}
}
