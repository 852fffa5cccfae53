package content

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// plainText returns how much of a piece comes before a quote or a backslash. Most texts are
// short, so the first bytes are looked at eight at a time.
func plainText(p []byte) int {
	const short = 32
	n := 0
	for ; n+8 <= len(p) && n < short; n += 8 {
		if found := quoteIn(p[n : n+8]); found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	if n == short {
		end := bytes.IndexByte(p[n:], '"')
		if end < 0 {
			end = len(p) - n
		}
		if i := bytes.IndexByte(p[n:n+end], '\\'); i >= 0 {
			end = i
		}
		return n + end
	}
	for n < len(p) && p[n] != '"' && p[n] != '\\' {
		n++
	}
	return n
}

// quoteIn sets the high bit of the first of eight bytes that is a quote or a backslash. It
// may set those of bytes after it, too.
func quoteIn(p []byte) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	eight := binary.LittleEndian.Uint64(p)
	a, b := eight^'"'*each, eight^'\\'*each
	return ((a-each)&^a | (b-each)&^b) & high
}

// scalarIn returns how much of a piece can be in a number, or in true, false or null.
func scalarIn(p []byte) int {
	n := 0
	for n < len(p) && scalars[p[n]] {
		n++
	}
	return n
}

// marks are the characters that matter in what nobody needs, and scalars those of numbers,
// true, false and null.
var (
	marks   = setOf("{}[]")
	scalars = setOf("0123456789abcdefghijklmnopqrstuvwxyz-+.E")
)

func setOf(text string) (all [256]bool) {
	for _, c := range []byte(text) {
		all[c] = true
	}
	return all
}
