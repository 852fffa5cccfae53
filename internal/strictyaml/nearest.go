package strictyaml

import (
	"slices"
	"strings"
)

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
