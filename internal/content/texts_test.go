package content_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headroom-quota/headroom/internal/content"
)

// All texts of objects are found, with the object that they are in.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		json string
		want []string
	}{
		{`{"a": "b", "c": {"d": "e", "n": 1, "f": {"g": "h"}}}`, []string{"1 .a=b", "2 c.d=e", "3 .g=h"}},
		{`[{"a": {"b": "c"}}]`, []string{"2 a.b=c"}},
		{`{"a": [{"b": "c"}, ["no", {"d": "e"}]], "f": "g"}`, []string{"2 a.b=c", "2 a.d=e", "1 .f=g"}},
		{`{"a": null, "b": true, "c": "\u00e9\n"}`, []string{"1 .c=é\n"}},
		{`{"a": "b"}` + "\n" + `{"c": "d"}`, []string{"1 .a=b", "1 .c=d"}},
		{`{"a": "b", "c": "cut sho`, []string{"1 .a=b"}},
		{`{"a": "b"]`, []string{"1 .a=b"}},
		{`"a"`, nil},
		{``, nil},
	} {
		var got []string
		content.Texts([]byte(c.json), func(x content.Text) {
			got = append(got, fmt.Sprintf("%d %s.%s=%s", x.Depth, x.In, x.Name, x.Text))
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.json, got, c.want)
		}
	}
}
