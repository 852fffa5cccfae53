package view

import (
	"net/url"
	"strings"
	"unicode"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Plain returns a text of others without what terminals and browsers obey: control
// characters, other than line breaks and tabs, and marks that change the direction of the
// text around them.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return -1
		}
		return r
	}, text)
}

func clean(texts ...*string) {
	for _, text := range texts {
		*text = Plain(*text)
	}
}

// webAddress returns an address if it is one of http or https, else "": a browser would run
// others.
func webAddress(text string) string {
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return Plain(text)
}

// PlainMarked is Plain for a marked text. It returns an empty list for nil, so that JSON
// has [] and not null.
func PlainMarked(m catalog.Marked) catalog.Marked {
	clean := make(catalog.Marked, 0, len(m))
	for _, part := range m {
		part.Text = Plain(part.Text)
		clean = append(clean, part)
	}
	return clean
}
