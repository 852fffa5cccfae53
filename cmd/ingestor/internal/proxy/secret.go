package proxy

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/headroom-quota/headroom/internal/content"
)

// An upstream may repeat the key in an answer, also in hex, in base64, or with escapes. The
// proxy puts stars in its place, as many as it has bytes there, so that lengths stay right.

const (
	// leastSecret is the length below which a key is too much like any other text.
	leastSecret = 4
	// leastEncoded is the same for what base64 makes of a part of it.
	leastEncoded = 6
)

// secret is a key, as it may stand in an answer.
type secret struct {
	forms [][]byte             // the key, and what hex and base64 make of it
	pairs [1 << 16 / 64]uint64 // the first two bytes of a form, also if they are escaped
}

// newSecret returns the forms of a key: of the part behind a scheme such as Bearer, if there
// is one. It returns nil if the key is too short.
func newSecret(key string) *secret {
	text := strings.TrimSpace(key)
	_, credentials, _ := strings.Cut(text, " ")
	if credentials = strings.TrimSpace(credentials); len(credentials) >= leastSecret {
		text = credentials
	}
	if len(text) < leastSecret {
		return nil
	}
	hexadecimal := hex.EncodeToString([]byte(text))
	forms := append([]string{text, hexadecimal, strings.ToUpper(hexadecimal)}, content.Base64Forms(text, leastEncoded)...)
	slices.Sort(forms[1:]) // so that each is looked for once
	return newForms(slices.Compact(forms)...)
}

// newForms returns a secret that stands in an answer as these texts. None begins with a space.
func newForms(forms ...string) *secret {
	s := &secret{}
	for _, form := range forms {
		s.forms = append(s.forms, []byte(form))
		for _, second := range []byte{form[1], '\\', '%', '+'} {
			s.begin(form[0], second)
		}
		s.begin('\\', form[0])
		s.begin('\\', 'u')
		for _, digit := range []byte("0123456789abcdefABCDEF") {
			s.begin('%', digit)
		}
	}
	return s
}

// begin notes two bytes with which a form may begin.
func (s *secret) begin(first, second byte) {
	s.pairs[int(first)<<8>>6|int(second)>>6] |= 1 << (second & 63)
}

// secrets remembers the forms of keys.
type secrets struct {
	mu  sync.Mutex
	all map[string]*secret
}

// mostSecrets is how many keys are remembered. Keys may change often.
const mostSecrets = 1000

func (s *secrets) of(key string) *secret {
	if key == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, is := s.all[key]
	if !is {
		if s.all == nil || len(s.all) >= mostSecrets {
			s.all = map[string]*secret{}
		}
		known = newSecret(key)
		s.all[key] = known
	}
	return known
}

// Hide removes a key from an answer.
func Hide(resp *http.Response, key string) {
	if s := newSecret(key); s != nil {
		s.hideIn(resp)
	}
}

func (s *secret) hideIn(resp *http.Response) {
	s.hideInHeader(resp.Header)
	if resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = &hiding{ReadCloser: resp.Body, resp: resp, secret: s}
	}
}

func (h *Handler) hide(c *call, resp *http.Response) error {
	c.mu.Lock()
	keys := slices.Clone(c.secrets)
	c.mu.Unlock()
	for _, key := range keys { // of its own upstream, and of those to which it could have gone
		s := h.secrets.of(key)
		if s == nil {
			continue
		}
		if encoding := resp.Header.Get("Content-Encoding"); resp.Body != nil && resp.Body != http.NoBody && encoding != "" && encoding != "identity" && c.request.Method != http.MethodHead {
			return refusef(http.StatusBadGateway, "upstream", "the upstream sent an answer in the encoding %.40q, which nobody asked for, and which may hold a key", encoding)
		}
		s.hideIn(resp)
	}
	return nil
}

func (s *secret) hideInHeader(h http.Header) {
	for name, values := range h {
		if strings.Contains(strings.ToLower(name), strings.ToLower(string(s.forms[0]))) {
			delete(h, name)
		}
		for i, value := range values {
			if s.mayBeIn(value) {
				text := []byte(value)
				s.mask(text)
				values[i] = string(text)
			}
		}
	}
}

// mayBeIn reports whether it is worth a look for the key in a header.
func (s *secret) mayBeIn(value string) bool {
	return strings.ContainsAny(value, `%\+`) || slices.ContainsFunc(s.forms, func(form []byte) bool { return strings.Contains(value, string(form)) })
}

// mask replaces the key in a text. It returns how many bytes at the end may begin it.
func (s *secret) mask(text []byte) (begins int) {
	for i := 0; i < len(text); i++ {
		if i+1 < len(text) && s.pairs[int(text[i])<<8>>6|int(text[i+1])>>6]>>(text[i+1]&63)&1 == 0 {
			continue
		}
		first := text[i]
		if first == '\\' || first == '%' {
			first, _ = content.Unescaped(text[i:])
		}
		for _, form := range s.forms {
			if c := form[0]; c != first && c != text[i] && len(text)-i >= len(`\u0000`) {
				continue
			}
			n, more := escaped(text[i:], form)
			if more {
				begins = max(begins, len(text)-i)
			}
			if n > 0 {
				copy(text[i:], stars(n))
				i += n - 1
				break
			}
		}
	}
	return begins
}

// escaped returns how many bytes of a text are a form with escapes; 0: it does not begin with
// it. More says that the text ends too early to know.
func escaped(text, form []byte) (n int, more bool) {
	for _, want := range form {
		rest := text[n:]
		if len(rest) == 0 {
			return 0, true
		}
		if first := rest[0]; first != '\\' && first != '%' { // nearly always
			if first != want && (first != '+' || want != ' ') {
				return 0, false
			}
			n++
			continue
		}
		c, width := content.Unescaped(rest)
		switch {
		case c == want:
			n += width
		case rest[0] == want:
			n++
		default:
			return 0, width == 1 && (c == '\\' && len(rest) < len(`\u0000`) || c == '%' && len(rest) < len("%00"))
		}
	}
	return n, false
}

func stars(n int) []byte { return bytes.Repeat([]byte("*"), n) }

// hiding is a body without the key. It holds back the end of what it has read only while
// that may be the beginning of a key.
type hiding struct {
	io.ReadCloser
	resp   *http.Response
	secret *secret

	held  []byte // read, and may begin a key
	ready []byte // read for a buffer that was too small, and may be returned
	err   error  // of the body
}

// leastRead is the space below which a buffer is too small to be read into.
const leastRead = 512

func (b *hiding) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(b.ready) > 0 {
			n := copy(p, b.ready)
			b.ready = b.ready[n:]
			return n, nil
		}
		if b.err != nil {
			return 0, b.err
		}
		if len(p) >= len(b.held)+leastRead {
			if text := b.fill(p); len(text) > 0 {
				return len(text), nil
			}
			continue
		}
		b.ready = b.fill(make([]byte, len(b.held)+leastRead))
	}
	return 0, nil
}

// fill reads a piece of the body, and returns what of it is no key and begins none.
func (b *hiding) fill(into []byte) (text []byte) {
	n := copy(into, b.held)
	var m int
	m, b.err = b.ReadCloser.Read(into[n:])
	text = into[:n+max(m, 0)]
	keep := b.secret.mask(text)
	if b.err != nil {
		b.secret.hideInHeader(b.resp.Trailer)
		b.held = nil
		return text
	}
	b.held = append(b.held[:0], text[len(text)-keep:]...)
	return text[:len(text)-keep]
}
