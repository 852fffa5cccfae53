// Package record keeps what a draft of a price book needs of calls, and leaves out what people
// and keys are known by: hosts and routes, the headers about limits, numbers of usage and cost.
// Words are kept if a list of common words of APIs has them. So a name of a person, a key or
// a text that nobody thought of is left out, too.
package record

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota/book"
)

//go:embed words.txt
var commonWords string

var common = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(commonWords) {
		all[word] = true
	}
	return all
})

// Cleaner leaves out of texts what is not about limits.
type Cleaner struct {
	own  map[string]bool // segments of paths that may be kept, too
	salt []byte          // of the stand-ins of words
	all  bool            // words that are not common are kept
}

// NewCleaner returns a cleaner that also keeps these segments of paths.
func NewCleaner(segments []string) *Cleaner {
	c := &Cleaner{own: map[string]bool{}, salt: make([]byte, sha256.Size)}
	_, _ = rand.Read(c.salt) // it never fails
	for _, s := range segments {
		c.own[s] = true
	}
	return c
}

// longest is the length of the longest word that is no id.
const longest = 32

// Parameter stands for a segment of a path that is not kept.
const Parameter = "{id}"

var (
	version  = pattern.Of(`^(v?[0-9]{1,2}(\.[0-9]{1,2})?((alpha|beta)[0-9]?)?|[0-9]{4}-[0-9]{2})$`)
	plain    = pattern.Of(`^[A-Za-z]+([-_.][A-Za-z]+)*$`)
	humps    = pattern.Of(`[A-Z]?[a-z]+|[A-Z]+`)
	pieces   = pattern.Of(`:[A-Za-z0-9+/=]{4,}:|[A-Za-z0-9_.%@+~*!#$&'?^|<>\\-]+|[^ ;=,"(){}\[\]:/]`)
	quantity = pattern.Of(`^-?([0-9]{1,10}|[0-9]{13})(\.[0-9]{1,6})?(ms|us|s|m|h|d|%)?$`)
	prose    = pattern.Of(`[^,;:{ ] `)
	duration = pattern.Of(`^([0-9]{1,8}(\.[0-9]{1,9})?(h|m|s|ms|us))+$`)
)

// Path returns a path with {id} in place of each segment that may say more than which route it is.
func (c *Cleaner) Path(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		if text, err := url.PathUnescape(part); part != "" && (err != nil || !c.segment(text, i)) {
			parts[i] = Parameter
		}
	}
	return "/" + strings.Join(parts, "/")
}

func (c *Cleaner) segment(text string, i int) bool {
	isVersion := version().MatchString(text) && (text[0] == 'v' || i < 3 && strings.ContainsAny(text, "-."))
	return c.own[text] || isVersion || plain().MatchString(text) && (c.all && isWord(text) || known(text))
}

var noWord = pattern.Of(`[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{6}|([a-z]{1,2}[A-Z]{1,2}){3}`)

// isWord reports whether a text looks like words, and not like a key of letters alone.
func isWord(text string) bool { return len(text) <= longest && !noWord().MatchString(text) }

// Common reports whether a segment of a path is {id}, a version or made of common words.
func Common(text string) bool {
	return text == Parameter || version().MatchString(text) || plain().MatchString(text) && known(text)
}

// known reports whether all that a word is made of is common.
func known(text string) bool {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("-_.", r) }) {
		if isCommon(part) {
			continue
		}
		for _, hump := range humps().FindAllString(part, -1) {
			if !isCommon(hump) {
				return false
			}
		}
	}
	return true
}

func isCommon(word string) bool {
	word = strings.ToLower(word)
	words := common()
	one := strings.TrimSuffix(word, "s")
	return words[word] || words[one] || words[strings.TrimSuffix(one, "e")] || words[strings.TrimSuffix(word, "ies")+"y"]
}

// Value returns the value of a header about limits, or a text of a body, with a stand-in for
// each word that is not common. The same word has the same stand-in in one process.
func (c *Cleaner) Value(text string) string {
	if strings.Trim(text, "0123456789") == "" && (len(text) <= 10 || len(text) == 13) { // nearly always
		return text
	}
	if strings.HasSuffix(text, "GMT") {
		if at, err := http.ParseTime(text); err == nil {
			return at.UTC().Format(http.TimeFormat)
		}
	}
	if strings.ContainsAny(text, "Tt") && text[0] >= '0' && text[0] <= '9' {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return at.Format(time.RFC3339Nano)
		}
	}
	if duration().MatchString(text) {
		return text
	}
	unknown := false
	clean := pieces().ReplaceAllStringFunc(text, func(piece string) string {
		switch {
		case piece[0] == ':' && len(piece) > 1: // bytes
			return ":eA==:"
		case quantity().MatchString(piece), plain().MatchString(piece) && (c.all && isWord(piece) || known(piece)):
			return piece
		}
		unknown = true
		return c.standIn(piece)
	})
	if unknown && prose().MatchString(text) { // what else it says may name somebody with common words
		return c.standIn(text)
	}
	return clean
}

// standIn is what stands for a text. The same text has the same one.
func (c *Cleaner) standIn(text string) string {
	mac := hmac.New(sha256.New, c.salt)
	_, _ = mac.Write([]byte(text)) // it never fails
	return "x" + hex.EncodeToString(mac.Sum(nil)[:3])
}

// aboutLimits are parts of the names of headers that are about limits, and short parts of them
// that few other names have: an answer has many headers.
var (
	aboutLimits = []string{"ratelimit", "rate-limit", "-limit", "limit-", "quota", "retry-after", "usage", "cost", "complexity", "throttl", "credits"}
	hints       = []string{"imit", "uota", "etry-A", "sage", "Cost", "cost", "omplexity", "hrottl", "redits"}
)

func isAboutLimits(name string) bool {
	has := func(part string) bool { return strings.Contains(name, part) }
	if !slices.ContainsFunc(hints, has) || strings.ContainsFunc(name, func(r rune) bool { return r > 'z' || r != '-' && r < '0' }) {
		return false
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(aboutLimits, has)
}

const (
	mostName  = 64  // bytes of the name of a header that is kept
	mostValue = 512 // of its value
)

// about returns the headers of an answer that are kept, as they are.
func about(h http.Header) map[string]string {
	kept := map[string]string{}
	for name, values := range h {
		if len(name) > mostName || !isAboutLimits(name) {
			continue
		}
		if text := strings.Join(values, ", "); len(text) <= mostValue {
			kept[name] = text
		}
	}
	for _, name := range []string{"Date", "Age"} {
		if text := h.Get(name); text != "" && len(text) <= mostName {
			kept[name] = text
		}
	}
	return kept
}

// keyHeaders are where keys usually stand.
var keyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "Apikey", "X-Api-Token", "X-Auth-Token", "X-Access-Token", "Private-Token", "X-Goog-Api-Key", "X-Rapidapi-Key", "X-Auth-Key", "X-Token"}

func keyHeader(h http.Header) string {
	for _, name := range keyHeaders {
		if h.Get(name) != "" {
			return name
		}
	}
	return ""
}

// verbs are those that are kept.
var verbs = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true}

// Exchange is what is kept of a call and its answer: a line of a recording.
type Exchange struct {
	At     time.Time         `json:"at"` // when the answer came
	Host   string            `json:"host"`
	Verb   string            `json:"verb"`
	Path   string            `json:"path"`
	Sizes  map[string]string `json:"sizes,omitempty"` // how much the query asks for, by the parameter
	Key    string            `json:"key,omitempty"`   // the header that had a key
	Status int               `json:"status"`
	Kind   string            `json:"kind,omitempty"`   // "json" or "stream": the body is one that prices read
	Header map[string]string `json:"header,omitempty"` // about limits
	Body   map[string]string `json:"body,omitempty"`   // of the answer, by the first of its places
}

// Places are the members of answers that are kept, each with the places where it may stand.
var Places = []string{
	"usage.total_tokens|response.usage.total_tokens|usageMetadata.totalTokenCount",
	"usage.input_tokens|message.usage.input_tokens|response.usage.input_tokens|usage.prompt_tokens|usageMetadata.promptTokenCount",
	"usage.output_tokens|message.usage.output_tokens|response.usage.output_tokens|usage.completion_tokens|usageMetadata.candidatesTokenCount",
	"extensions.cost.requestedQueryCost", "extensions.cost.actualQueryCost",
	"extensions.cost.throttleStatus.maximumAvailable", "extensions.cost.throttleStatus.currentlyAvailable", "extensions.cost.throttleStatus.restoreRate",
	"cost|meta.cost|usage.cost|meta.credits_used|usage.credits|credits_used|usage.units",
	"data.rateLimit.limit", "data.rateLimit.cost", "data.rateLimit.remaining", "data.rateLimit.resetAt",
	"errors.0.extensions.code", "errors.0.type", "error.code", "error.type", "error.status",
}

// sizes are parameters that say how much a call asks for: its price may depend on them. A name such as num is none,
// because it may be that of anything.
var sizes = map[string]bool{
	"limit": true, "per_page": true, "perPage": true, "page_size": true, "pageSize": true, "page[size]": true, "max_results": true, "maxResults": true,
	"count": true, "size": true, "first": true, "top": true, "$top": true, "rows": true, "take": true,
}

// sizesOf returns the sizes in a query: short numbers, and nothing else of it.
func sizesOf(query string) (kept map[string]string) {
	for pair := range strings.SplitSeq(query, "&") {
		raw, text, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(raw) // as in page%5Bsize%5D
		if err == nil && sizes[name] && text != "" && len(text) <= 4 && strings.Trim(text, "0123456789") == "" {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = text
		}
	}
	return kept
}

// sources reads the places.
var sources = func() *content.Sources {
	all := make([]*book.Source, len(Places))
	for i, place := range Places {
		all[i] = &book.Source{Body: place, Per: 1, Times: 1}
	}
	return content.NewSources(all...)
}()

func name(place string) string {
	first, _, _ := strings.Cut(place, "|")
	return first
}

// PlacesOf returns all places of the member with a name, as a source of a price book has them.
func PlacesOf(named string) string {
	for _, place := range Places {
		if name(place) == named {
			return place
		}
	}
	return named
}

// begin notes what is known of a call when the header of its answer has come. The reading is
// nil if its body is none that prices read.
func begin(host, verb string, u *url.URL, key string, status int, h http.Header, length int64) (*Exchange, *content.Reading) {
	x := &Exchange{Host: host, Verb: verb, Path: u.EscapedPath(), Sizes: sizesOf(u.RawQuery), Key: key, Status: status, Header: about(h)}
	switch kind := strings.ToLower(h.Get("Content-Type")); {
	case strings.Contains(kind, "event-stream"), strings.Contains(kind, "ndjson"), strings.Contains(kind, "jsonl"):
		x.Kind = "stream"
	case strings.Contains(kind, "json"):
		x.Kind = "json"
	default:
		return x, nil
	}
	return x, sources.Read(content.Message{Header: h, Length: length})
}

func (x *Exchange) end(r *content.Reading, eof bool) {
	if r == nil {
		return
	}
	r.End(eof)
	for i, place := range Places {
		if text, ok := r.Text(i); ok && text != "" && len(text) <= mostName {
			if x.Body == nil {
				x.Body = map[string]string{}
			}
			x.Body[name(place)] = text
		}
	}
}

// clean leaves out what is not about limits.
func (x *Exchange) clean(c *Cleaner) {
	x.At = x.At.UTC().Truncate(time.Millisecond)
	x.Verb = cmp.Or(x.Verb, http.MethodGet)
	if !verbs[x.Verb] {
		x.Verb = "*"
	}
	x.Path = c.Path(x.Path)
	for name, text := range x.Header {
		x.Header[name] = c.Value(text)
	}
	for name, text := range x.Body {
		x.Body[name] = c.Value(text)
	}
}

// Take makes an exchange of a call that somebody else has recorded, with its whole answer. The
// words of its path stay, unless they look like an id: whoever has the recording knows them.
func Take(at time.Time, host, verb string, u *url.URL, asked http.Header, status int, h http.Header, body []byte) *Exchange {
	x, r := begin(host, verb, u, keyHeader(asked), status, h, int64(len(body)))
	if r != nil {
		_, _ = r.Write(body) // it never fails
	}
	x.end(r, true)
	x.At = at
	x.clean(&Cleaner{all: true})
	return x
}
