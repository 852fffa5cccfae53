package quota

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Every byte at every place of every length of a name is judged as it would be by itself.
func TestNamesAreLookedAtByteByByte(t *testing.T) {
	for n := range 27 {
		for at := range n {
			for b := range 256 {
				s := strings.Repeat("~", at) + string([]byte{byte(b)}) + strings.Repeat(" ", n-at-1)
				want := b >= ' ' && b != 0x7f && utf8.ValidString(s)
				if got := printable(s, n); got != want {
					t.Fatalf("printable(%q) = %v, want %v", s, got, want)
				}
			}
		}
	}
	for s, want := range map[string]bool{
		"": true, "Zürich, 東京, naïve": true, "Zürich\n": false, "東\x7f京": false, "\xffpoolspools": false,
	} {
		if printable(s, 128) != want {
			t.Errorf("printable(%q) = %v, want %v", s, !want, want)
		}
	}
}
