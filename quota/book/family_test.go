package book_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/book/keys"
)

func TestMaxKeysOfAFamily(t *testing.T) {
	for written, want := range map[string]int{"": 100_000, ", max_keys: 7": 7, ", max_keys: none": book.NoMaximum} {
		text := "revision: 1\nfamilies: {f: {quota: 3, windows: [{per: 1s}]" + written + "}}\n"
		b, err := book.Parse("costs.yaml", []byte(text), nil)
		if err != nil {
			t.Fatalf("%q: %v", written, err)
		}
		if got := b.Families["f"].MaxKeys; got != want {
			t.Errorf("%q is %d, want %d", written, got, want)
		}
		if is := b.Keys().Families["f"].MaxKeys; (is == keys.None) != (want == book.NoMaximum) {
			t.Errorf("%q is written as %d", written, is)
		}
		again, err := book.Parse("costs.yaml", b.Format(), nil)
		if err != nil || again.Families["f"].MaxKeys != want {
			t.Errorf("%q, formatted:\n%s%v", written, b.Format(), err)
		}
	}
	for _, wrong := range []string{"0", "-1", "None", "no", "1.5"} {
		_, err := book.Parse("costs.yaml", []byte("revision: 1\nfamilies: {f: {quota: 3, windows: [{per: 1s}], max_keys: "+wrong+"}}\n"), nil)
		if err == nil || !strings.Contains(err.Error(), "max_keys must be a whole number from 1 to 10000000") {
			t.Errorf("max_keys: %s: %v", wrong, err)
		}
	}
}
