package meter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostSaid is how many bytes of an upstream's message are kept: as many as a block
// takes for its reason.
const mostSaid = 256

// said is what an upstream says of a refusal: the message in the JSON of its answer,
// else the status line. It is one line of plain text, without the key of the call.
func said(resp *http.Response, b *body, key hidden) string {
	if isJSON(resp.Header) { // what is no JSON has no message, and may be a stream
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

// member is a text in a JSON object. In is the name of the object that has it, where
// that is a member of the outermost one.
type member struct {
	depth    int // of objects; 1 is the outermost
	in, name string
	text     string
}

// members calls each for the texts in a JSON text, which may be cut short. Lists are
// looked through as if they were not there.
func members(text []byte, each func(member)) {
	type level struct {
		object, value bool // value: its key was read, its value comes
		name          string
	}
	open := []level{{}}
	objects, in := 0, ""
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			return
		}
		at := &open[len(open)-1]
		s, isText := token.(string)
		if isText && at.object && !at.value {
			at.value, at.name = true, s
			continue
		}
		if isText && at.object {
			m := member{depth: objects, name: at.name, text: s}
			if objects == 2 {
				m.in = in
			}
			each(m)
		}
		at.value = false
		switch token {
		case json.Delim('{'):
			if objects++; objects == 2 {
				in = at.name
			}
			open = append(open, level{object: true})
		case json.Delim('['):
			open = append(open, level{name: at.name}) // its objects are of that name
		case json.Delim('}'):
			objects--
			open = open[:len(open)-1]
		case json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}

// messageOf is the message among the texts of an answer: in the shape of Google's, of
// RFC 9457, or of what many others do.
func messageOf(texts map[string]string) string {
	problem := texts["detail"]
	if title := texts["title"]; title != "" && problem != "" {
		problem = title + ": " + problem
	}
	return cmp.Or(texts["error.message"], texts["message"], problem, texts["error"], texts["title"])
}

var (
	tag = regexp.MustCompile(`</?([a-zA-Z][a-zA-Z0-9]*)[^<>]*>|<!--.*?-->`)
	// inline are the tags that part no words.
	inline = regexp.MustCompile(`^</?(?i:a|b|i|u|em|strong|code|span|tt|small)[\s/>]`)
	// keys are what keys look like in messages that name one, such as another one's.
	keys = regexp.MustCompile(`(?i)\b((?:api[_-]?key|key|token)[=:])[^\s'"&,;)]+`)
)

// line makes a line of plain text of what an upstream says.
func line(text string, key hidden) string {
	text = tag.ReplaceAllStringFunc(key.hide(text), func(tag string) string {
		if inline.MatchString(tag) {
			return ""
		}
		return " "
	})
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case !unicode.IsPrint(r): // it would not be seen, or would turn round what is
			return -1
		}
		return r
	}, strings.ToValidUTF8(html.UnescapeString(text), ""))
	text = keys.ReplaceAllString(key.hide(strings.Join(strings.Fields(text), " ")), "${1}"+instead)
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

// hidden are the texts of a call that nobody may read: its key.
type hidden []string

// instead stands where a key was.
const instead = "[key]"

// hiddenIn returns those of a request, and of the key that was put into it.
func hiddenIn(req *http.Request, header, key string) (all hidden) {
	if key != "" {
		all = append(all, key)
	}
	for name, values := range req.Header {
		if strings.EqualFold(name, header) || strings.EqualFold(name, "Authorization") {
			all = append(all, values...)
		}
	}
	for _, value := range all {
		if _, credentials, is := strings.Cut(value, " "); is { // after Bearer
			all = append(all, strings.TrimSpace(credentials))
		}
	}
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// hide takes what is hidden out of a text, also where it is written as in a URL.
func (h hidden) hide(text string) string {
	for _, secret := range h {
		for _, s := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			text = strings.ReplaceAll(text, s, instead)
		}
	}
	return text
}
