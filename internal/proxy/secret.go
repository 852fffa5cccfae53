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
func (c *call) secrets() (all [][]byte) {
	c.mu.Lock()
	key := c.secret
	c.mu.Unlock()
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

// hide removes the key from an answer.
func (c *call) hide(resp *http.Response) error {
	secrets := c.secrets()
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

	buffer []byte
	held   []byte // read, and not yet returned; a part of the buffer
	free   int    // bytes of held that may be returned
	err    error  // of the body
}

// Read implements [io.Reader].
func (b *hiding) Read(p []byte) (int, error) {
	for len(p) > 0 && b.free == 0 && b.err == nil {
		b.fill(len(p))
	}
	n := copy(p, b.held[:b.free])
	b.held, b.free = b.held[n:], b.free-n
	if n == 0 && b.free == 0 {
		return 0, b.err
	}
	return n, nil
}

// fill reads a piece of the body.
func (b *hiding) fill(size int) {
	start := len(b.held)
	b.buffer = slices.Grow(append(b.buffer[:0], b.held...), size)
	b.held = b.buffer[:start+size]
	n, err := b.ReadCloser.Read(b.held[start:])
	b.held, b.err = b.held[:start+max(n, 0)], err
	for _, secret := range b.secrets {
		for from := 0; ; {
			i := bytes.Index(b.held[from:], secret)
			if i < 0 {
				break
			}
			copy(b.held[from+i:], stars(len(secret)))
			from += i + len(secret)
		}
	}
	b.free = len(b.held)
	if b.err != nil {
		hideInHeader(b.resp.Trailer, b.secrets)
		return
	}
	for _, secret := range b.secrets {
		for n := min(len(secret)-1, len(b.held)); n > 0; n-- {
			if bytes.HasSuffix(b.held, secret[:n]) {
				b.free = min(b.free, len(b.held)-n)
				break
			}
		}
	}
}
