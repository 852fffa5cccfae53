package strictyaml

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Quoted puts quotes around a text that YAML might take for something else.
func Quoted(s string) string {
	if !utf8.ValidString(s) {
		return `"` + s + `"` // which [File.Parse] refuses; escapes would make other text of it
	}
	plain := s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
	for i := 0; i < len(s); i++ {
		c := s[i]
		plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_./ ", c) >= 0 ||
			c == ':' && i+1 < len(s) && s[i+1] != ' ')
	}
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain && s == strings.TrimSpace(s) {
		return s
	}
	return strconv.Quote(s)
}

// Duration returns a duration as people write it, without the zeros that its String adds: 24h, not
// 24h0m0s.
func Duration(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Nearest is the known word that a wrong one was probably meant to be, or "".
func Nearest(word string, known []string) string {
	best, least := "", 2+(len(word)-strings.LastIndex(word, "/")-1)/4
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := Distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	for _, k := range known { // a plural is far from its word: queries
		if stem := len(word) - 1; best == "" && stem >= 3 && strings.HasSuffix(k, "ies") && strings.EqualFold(k[:len(k)-3], word[:stem]) {
			best = k
		}
	}
	return best
}

// Distance is how many letters must be changed, added or dropped, or swapped
// with their neighbour, to make one word of another.
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 0
			if a[i-1] != b[j-1] {
				change = 1
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
