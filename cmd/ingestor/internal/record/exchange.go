package record

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota/book"
)

// Exchange is what is kept of a call and its answer: a line of a recording.
type Exchange struct {
	At     time.Time         `json:"at"` // when the answer came
	Host   string            `json:"host"`
	Verb   string            `json:"verb"`
	Path   string            `json:"path"`
	Key    string            `json:"key,omitempty"` // the header that had a key
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
	"data.rateLimit.limit", "data.rateLimit.cost", "data.rateLimit.remaining", "data.rateLimit.resetAt",
	"errors.0.extensions.code", "errors.0.type", "error.code", "error.type", "error.status",
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
func begin(host, verb, path, key string, status int, h http.Header, length int64) (*Exchange, *content.Reading) {
	x := &Exchange{Host: host, Verb: verb, Path: path, Key: key, Status: status, Header: about(h)}
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
func Take(at time.Time, host, verb, path string, asked http.Header, status int, h http.Header, body []byte) *Exchange {
	x, r := begin(host, verb, path, keyHeader(asked), status, h, int64(len(body)))
	if r != nil {
		_, _ = r.Write(body) // it never fails
	}
	x.end(r, true)
	x.At = at
	x.clean(&Cleaner{all: true})
	return x
}
