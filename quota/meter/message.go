package meter

import (
	"cmp"
	"html"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/internal/pattern"
)

// mostSaid is the maximum length of a kept message, in bytes. A block's reason has the
// same maximum.
const mostSaid = 256

// said returns an upstream's message about a refusal: the message in the JSON of its
// answer, else the status line. It is one line of plain text, without the call's key.
func said(resp *http.Response, b *body, key hidden) string {
	if isJSON(resp.Header) { // other bodies have no message, and may be streams
		b.read(resp)
	}
	if message := line(b.message, key); message != "" {
		return message
	}
	status := strconv.Itoa(resp.StatusCode)
	return cmp.Or(line(resp.Status, key), strings.TrimSpace(status+" "+http.StatusText(resp.StatusCode)))
}

func isJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// messageOf returns the message among the texts of an answer. It knows the forms of
// Google and of RFC 9457, and other common ones.
func messageOf(texts map[string]string) string {
	problem := texts["detail"]
	if title := texts["title"]; title != "" && problem != "" {
		problem = title + ": " + problem
	}
	return cmp.Or(texts["error.message"], texts["message"], problem, texts["error"], texts["title"])
}

var (
	tag = pattern.Of(`</?([a-zA-Z][a-zA-Z0-9]*)[^<>]*>|<!--.*?-->`)
	// inline matches tags that do not separate words.
	inline = pattern.Of(`^</?(?i:a|b|i|u|em|strong|code|span|tt|small)[\s/>]`)
	// keys matches keys in messages, such as the key of another caller.
	keys = pattern.Of(`(?i)\b((?:api[_-]?key|key|token)[=:])[^\s'"&,;)]+`)
)

// line turns an upstream's text into one line of plain text.
func line(text string, key hidden) string {
	text = tag().ReplaceAllStringFunc(key.hide(text), func(tag string) string {
		if inline().MatchString(tag) {
			return ""
		}
		return " "
	})
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case !unicode.IsPrint(r): // it is invisible, or changes the direction of the text
			return -1
		}
		return r
	}, strings.ToValidUTF8(html.UnescapeString(text), ""))
	text = keys().ReplaceAllString(key.hide(strings.Join(strings.Fields(text), " ")), "${1}"+instead)
	if len(text) <= mostSaid {
		return text
	}
	const more = "…"
	end := mostSaid - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimRight(text[:end], " ") + more
}
