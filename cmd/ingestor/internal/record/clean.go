// Package record keeps what a draft of a price book needs of calls, and leaves out what people
// and keys are known by: hosts and routes, the headers about limits, numbers of usage and cost.
// Words are kept if a list of common words of APIs has them. So a name of a person, a key or
// a text that nobody thought of is left out, too.
package record

import (
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

	"github.com/headroom-quota/headroom/internal/pattern"
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
