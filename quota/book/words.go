package book

import (
	"fmt"
	"strings"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

// list writes words as people do: a, b or c.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

func didYouMean(word string, known []string) string {
	if best := strictyaml.Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// orMean suggests a word, or else says what to do.
func orMean(word string, known []string, otherwise string) string {
	if s := didYouMean(word, known); s != "" {
		return s
	}
	return "; " + otherwise
}
