package web

import (
	"crypto/sha256"
	"crypto/subtle"
)

// Is reports whether a text is that of the token, in constant time.
func (t *Token) Is(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}
