package meter

import (
	"bytes"
	"net/http"
	"runtime"
	"slices"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota/book"
)

// watcher is shown the body of an answer while the caller reads it. It must not keep the
// pieces.
type watcher interface {
	saw(p []byte)
	ended(eof bool) // the body was read to its end, or else closed or cut
}

func watch(resp *http.Response, watchers []watcher) {
	if len(watchers) == 0 {
		return
	}
	a := &answer{ReadCloser: resp.Body, watchers: watchers}
	a.wrap(resp)
	for _, w := range watchers { // should the caller never close it
		switch w := w.(type) {
		case *reported:
			if w.reading.Decodes() {
				runtime.AddCleanup(a, func(r *content.Reading) { r.End(false) }, w.reading)
			}
		case *streamed:
			runtime.AddCleanup(a, func(s *streamed) { s.over = true; s.decoded.End() }, w)
		}
	}
}

// streamed looks for a refusal in the body of an answer that is no error, such as that of
// GraphQL. The pools are shut when the refusal was seen, behind the caller's back: no byte
// waits for what follows, nor for the ledger. The next call waits until they are shut.
type streamed struct {
	u      *book.Upstream
	resp   *http.Response
	shut   func(*refusal, *body)
	passed func() // no refusal is in it

	texts []string // of which one must be there, by the rules that a text is enough for
	early int      // the number of the first rules that can be asked before the body ends
	body  body
	over  bool

	decoded *content.Decoded
}

// newStreamed returns nil if no rule asks for the body of a successful answer.
func newStreamed(c *call, resp *http.Response) *streamed {
	if resp.StatusCode >= http.StatusMultipleChoices || resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	head := *resp
	head.Body = nil // or a decoder would keep it, and never end if the caller forgets it
	s := &streamed{u: c.upstream, resp: &head, body: body{done: true}}
	asks := false
	s.early = len(c.upstream.Refusals)
	for i := range c.upstream.Refusals {
		rule := &c.upstream.Refusals[i]
		if !slices.Contains(rule.Status, resp.StatusCode) {
			continue
		}
		if rule.Credential && isJSON(resp.Header) { // the caller must not get the answer, so it is read first
			return nil
		}
		more := rule.Reason != nil || rule.At != nil && rule.At.Source.Body != "" || rule.Pool != nil && rule.Pool.From != nil && rule.Pool.From.Body != ""
		asks = asks || more || rule.Body != nil
		if more {
			s.early = min(s.early, i)
		} else if i < s.early {
			s.texts = append(s.texts, rule.Body...)
		}
	}
	if !asks {
		return nil
	}
	// a body is compressed here only if the caller asked for it itself
	s.decoded = content.NewDecoded(resp.Header.Get("Content-Encoding"), s.read)
	return s
}

func (s *streamed) saw(p []byte) {
	if s.decoded.Write(p); s.over {
		s.decoded.End()
	}
}

func (s *streamed) read(p []byte) {
	if s.over {
		return
	}
	before := len(s.body.text)
	s.body.text = append(s.body.text, p[:min(len(p), mostRead-before)]...)
	if slices.ContainsFunc(s.texts, func(text string) bool {
		return bytes.Contains(s.body.text[max(before-len(text)+1, 0):], []byte(text))
	}) {
		s.find(s.u.Refusals[:s.early])
	}
	if !s.over && len(s.body.text) == mostRead {
		s.last()
	}
}

func (s *streamed) ended(bool) {
	if s.decoded.End(); !s.over {
		s.last()
	}
}

func (s *streamed) last() {
	if s.find(s.u.Refusals); !s.over {
		s.passed()
		s.end()
	}
}

func (s *streamed) find(rules []book.Refusal) {
	s.body.parse()
	if no := findRefusal(s.u, rules, s.resp, &s.body); no != nil {
		s.shut(no, &s.body)
		s.end()
	}
}

func (s *streamed) end() {
	s.over, s.body.text = true, nil
	s.decoded.Enough()
}
