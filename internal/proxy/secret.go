package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// An upstream may repeat the key in an answer. The proxy puts stars in its place, as many as
// the key has bytes, so that lengths stay right.

// leastSecret is the length below which a key is too much like any other text.
const leastSecret = 4

// secrets returns the texts that an answer must not have: the key, and the part behind a
// scheme such as Bearer, also in the encoding of URLs.
func secrets(key string) (all [][]byte) {
	_, credentials, _ := strings.Cut(key, " ")
	for _, plain := range []string{key, credentials} {
		for _, text := range []string{plain, url.QueryEscape(plain), url.PathEscape(plain)} {
			known := func(other []byte) bool { return string(other) == text }
			if len(text) >= leastSecret && !slices.ContainsFunc(all, known) {
				all = append(all, []byte(text))
			}
		}
	}
	return all
}

// Hide returns the body of an answer without a key.
func Hide(resp *http.Response, key string) io.Reader {
	return &hiding{ReadCloser: resp.Body, resp: resp, secrets: secrets(key)}
}

// hide removes the key from an answer.
func (c *call) hide(resp *http.Response) error {
	c.mu.Lock()
	secrets := secrets(c.secret)
	c.mu.Unlock()
	if len(secrets) == 0 {
		return nil
	}
	hideInHeader(resp.Header, secrets)
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" && c.request.Method != http.MethodHead {
		return refusef(http.StatusBadGateway, "upstream", "the upstream sent an answer in the encoding %.40q, which nobody asked for, and which may hold a key", encoding)
	}
	resp.Body = &hiding{ReadCloser: resp.Body, resp: resp, secrets: secrets}
	return nil
}

func hideInHeader(h http.Header, secrets [][]byte) {
	for name, values := range h {
		for _, secret := range secrets {
			if strings.Contains(strings.ToLower(name), strings.ToLower(string(secret))) {
				delete(h, name)
			}
			for i, value := range values {
				values[i] = strings.ReplaceAll(value, string(secret), string(stars(len(secret))))
			}
		}
	}
}

func stars(n int) []byte { return bytes.Repeat([]byte("*"), n) }

// hiding is a body without the key. It holds back the end of what it has read only while
// that may be the beginning of a key.
type hiding struct {
	io.ReadCloser
	resp    *http.Response
	secrets [][]byte

	held  []byte // read, and may begin a key
	ready []byte // read for a buffer that was too small, and may be returned
	err   error  // of the body
}

// leastRead is the space below which a buffer is too small to be read into.
const leastRead = 512

// Read implements [io.Reader].
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
	keep := 0
	for _, secret := range b.secrets {
		for from := 0; ; {
			i := bytes.Index(text[from:], secret)
			if i < 0 {
				break
			}
			copy(text[from+i:], stars(len(secret)))
			from += i + len(secret)
		}
	}
	if b.err != nil {
		hideInHeader(b.resp.Trailer, b.secrets)
		b.held = nil
		return text
	}
	for _, secret := range b.secrets {
		for n := min(len(secret)-1, len(text)); n > keep; n-- {
			if bytes.HasSuffix(text, secret[:n]) {
				keep = n
			}
		}
	}
	b.held = append(b.held[:0], text[len(text)-keep:]...)
	return text[:len(text)-keep]
}
