// Package shell quotes texts for the commands that messages tell a person to type.
package shell

import (
	"strings"
	"unicode"
)

// Quote returns a text as a shell takes it for one word.
func Quote(text string) string {
	if text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+:@,%=", r)
	}) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
