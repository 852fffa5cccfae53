package strictyaml

import (
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
