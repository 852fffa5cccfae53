package proxy

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota/meter"
)

// TestKeysNeverAppear: whatever an upstream does with the key, the program and the log do
// not get it.
func TestKeysNeverAppear(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"in the body": func(w http.ResponseWriter, req *http.Request) {
			fmt.Fprintf(w, "you sent %s", req.Header.Get("X-Api-Key"))
		},
		"in pieces": func(w http.ResponseWriter, req *http.Request) {
			for _, c := range []byte("you sent " + req.Header.Get("X-Api-Key") + "!") {
				_, _ = w.Write([]byte{c})
				_ = http.NewResponseController(w).Flush()
			}
		},
		"in a URL": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, url.QueryEscape(theKey)) },
		"in base64": func(w http.ResponseWriter, _ *http.Request) {
			for before := range 3 {
				w.Header().Add("X-Echo", base64.URLEncoding.EncodeToString([]byte("xyz"[:before]+theKey+"!")))
				_, _ = io.WriteString(w, base64.StdEncoding.EncodeToString([]byte("xyz"[:before]+theKey+"!"))+" ")
			}
		},
		"in hex": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Echo", hex.EncodeToString([]byte(theKey)))
			fmt.Fprintf(w, "%x %X", theKey, theKey)
		},
		"in escapes": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Echo", escapedKey(theKey, 1))
			for n := range 4 {
				_, _ = io.WriteString(w, `{"key":"`+escapedKey(theKey, n)+`\n"}`)
			}
			_, _ = io.WriteString(w, strings.ReplaceAll(theKey, "/", `\/`)+url.QueryEscape(url.QueryEscape(theKey)[:9])+strings.ToLower(url.QueryEscape(theKey)))
		},
		"in an error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "the key "+theKey+" is wrong")
		},
		"in headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Echo", "Bearer "+theKey)
			w.Header().Set("Location", "/v1/items?token="+url.QueryEscape(theKey))
			w.WriteHeader(http.StatusFound)
		},
		"in gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, theKey)
			_ = z.Close()
		},
		"in an encoding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, theKey)
		},
		"in what is no answer": func(w http.ResponseWriter, _ *http.Request) {
			conn, buffer, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			fmt.Fprintf(buffer, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n", theKey)
			_ = buffer.Flush()
			_ = conn.Close()
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			r := newRig(t, rigOptions{serve: serve})
			got := r.call("GET", "/api/v1/items", "Accept-Encoding", "identity")
			shown := fmt.Sprint(got.Status, got.Header, got.body, r.log)
			for _, secret := range []string{theKey, url.QueryEscape(theKey), strings.ToLower(url.QueryEscape(theKey)), url.PathEscape(theKey), theToken, strings.ReplaceAll(theKey, "/", `\/`)} {
				if strings.Contains(shown, secret) {
					t.Errorf("it appears: %s", shown)
				}
			}
			plain := regexp.MustCompile(`\\u00([0-9a-fA-F]{2})`).ReplaceAllStringFunc(shown, func(escape string) string {
				c, _ := hex.DecodeString(escape[4:])
				return string(c)
			})
			for _, word := range regexp.MustCompile(`[A-Za-z0-9+/_-]{12,}`).FindAllString(shown, -1) {
				for from := range 4 {
					for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
						text := word[min(from, len(word)):]
						decoded, _ := e.DecodeString(text[:len(text)/4*4])
						plain += " " + string(decoded)
					}
				}
				decoded, _ := hex.DecodeString(word[:len(word)/2*2])
				plain += " " + string(decoded)
			}
			if part := theKey[3 : len(theKey)-3]; strings.Contains(plain, part) {
				t.Errorf("it appears in an encoding: %s", shown)
			}
			if r.seen() == nil {
				t.Error("the upstream was not called")
			}
		})
	}
}

// TestKeyFailures: a key that is missing or refused is the proxy's affair, not the program's.
func TestKeyFailures(t *testing.T) {
	failing := func(o *Options) {
		o.Keys = map[string]meter.KeySource{"api": func() meter.KeySource { return meter.Key("") }()}
	}
	r := newRig(t, rigOptions{change: failing})
	got := r.call("GET", "/api/v1/items")
	if got.StatusCode != http.StatusBadGateway || got.Header.Get("X-Should-Retry") != "false" || r.seen() != nil || !strings.Contains(r.log.String(), "key of api") {
		t.Errorf("%s %s\n%s", got.Status, got.body, r.log)
	}
}

// TestHiding compares with replacing the key in the whole text, however it is read.
func TestHiding(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	secrets := [][]byte{[]byte("aab"), []byte("aabaac"), []byte("cabbage")}
	forms := newForms("aab", "aabaac", "cabbage")
	want := func(text []byte) []byte {
		for _, s := range secrets {
			text = bytes.ReplaceAll(text, s, stars(len(s)))
		}
		return text
	}
	for range 2000 {
		text := make([]byte, random.IntN(60))
		for i := range text {
			text[i] = "aabbcge"[random.IntN(7)]
		}
		for _, with := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader, func(r io.Reader) io.Reader { return r }} {
			b := &hiding{ReadCloser: io.NopCloser(with(bytes.NewReader(text))), resp: &http.Response{}, secret: forms}
			got, err := io.ReadAll(iotest.OneByteReader(b))
			clean := true
			for _, s := range secrets {
				clean = clean && !bytes.Contains(got, s)
			}
			if err != nil || !clean || len(got) != len(text) || !bytes.Contains(text, []byte("aab")) && !bytes.Equal(got, want(text)) {
				t.Fatalf("%q became %q, %v", text, got, err)
			}
		}
	}
	broken := &hiding{ReadCloser: io.NopCloser(iotest.TimeoutReader(strings.NewReader("cabb"))), resp: &http.Response{}, secret: forms}
	if got, err := io.ReadAll(broken); string(got) != "cabb" || !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%q %v", got, err)
	}
}

// escapedKey writes each nth character of a key as an escape of JSON; 0 is all of them.
func escapedKey(key string, n int) string {
	var out strings.Builder
	for i, c := range []byte(key) {
		switch {
		case n > 1 && i%n != 0:
			out.WriteByte(c)
		case i%2 == 0:
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			fmt.Fprintf(&out, `\u%04X`, c)
		}
	}
	return out.String()
}

// TestHidingEscapes: a key with any of its characters escaped is hidden, in whatever pieces it
// comes, and the length of a text stays.
func TestHidingEscapes(t *testing.T) {
	const key = `sk-a+b/"c d`
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	forms := newSecret(key)
	hidden := 0
	for range 3000 {
		var in strings.Builder
		for range 1 + random.IntN(4) {
			for range random.IntN(5) {
				in.WriteString([]string{"s", "sk-", `\`, "%", `\u00`, "x", " ", "%2"}[random.IntN(8)])
			}
			for _, c := range []byte(key)[:len(key)-random.IntN(2)] {
				switch n := random.IntN(6); {
				case n == 0:
					fmt.Fprintf(&in, `\u%04x`, c)
				case n == 1:
					fmt.Fprintf(&in, "%%%02X", c)
				case n == 2 && (c == '/' || c == '"'):
					in.WriteString(`\` + string(c))
				default:
					in.WriteByte(c)
				}
			}
		}
		text := in.String()
		plain := func(text string) string {
			var out strings.Builder
			for text != "" {
				c, n := content.Unescaped(text)
				out.WriteByte(c)
				text = text[n:]
			}
			return out.String()
		}
		for _, with := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, func(r io.Reader) io.Reader { return r }} {
			b := &hiding{ReadCloser: io.NopCloser(with(strings.NewReader(text))), resp: &http.Response{}, secret: forms}
			got, err := io.ReadAll(b)
			if err != nil || len(got) != len(text) || strings.Contains(plain(string(got)), key) {
				t.Fatalf("%q became %q, %v", text, got, err)
			}
		}
		if strings.Contains(plain(text), key) {
			hidden++
		}
	}
	if hidden < 500 {
		t.Errorf("only %d texts had the key", hidden)
	}
}

// TestHide: a key is hidden however it begins, in the header and in the body.
func TestHide(t *testing.T) {
	for _, test := range []struct{ key, text string }{
		{"Bearer key-of-tests", "key-of-tests"},
		{"Bearer  key of tests", "key+of%20tests"},
		{" Bearer two words", "two+words"},
		{"/key/of/tests", `\/key\/of\/tests`},
		{`"key"of"tests`, `\"key\"of\"tests`},
		{`\key\of\tests`, `\\key\\of\\tests`},
	} {
		resp := &http.Response{Header: http.Header{"X-Echo": {test.text}}, Body: io.NopCloser(iotest.OneByteReader(strings.NewReader("you sent " + test.text)))}
		Hide(resp, test.key)
		hidden := string(stars(len(test.text)))
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "you sent "+hidden || resp.Header.Get("X-Echo") != hidden {
			t.Errorf("%q in %q became %q and %q, %v", test.key, test.text, body, resp.Header, err)
		}
	}
	if forms := newSecret("0123456789").forms; len(forms) != 5 { // hex is the same in capitals, and so are both alphabets of base64
		t.Errorf("%d forms are looked for, want each once: %q", len(forms), forms)
	}
}

// TestRememberedKeysAreBounded: keys may change often, and all of their forms take memory.
func TestRememberedKeysAreBounded(t *testing.T) {
	var all secrets
	first := all.of("the first key")
	for n := range mostSecrets - 1 {
		all.of(fmt.Sprint("key ", n))
	}
	if all.of("the first key") != first {
		t.Error("the first key is forgotten")
	}
	if all.of("one more key"); len(all.all) > mostSecrets {
		t.Errorf("%d keys are remembered", len(all.all))
	}
}

// BenchmarkHiding reads an answer that repeats no key.
func BenchmarkHiding(b *testing.B) {
	text := bytes.Repeat([]byte(`{"a":"some words\nof an answer","b":[1,2,3],"c":"\u00e9"},`), 1000)
	s := newSecret("Bearer sk-proj-0123456789abcdefghijklmnopqrstuvwxyz")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	buffer := make([]byte, 32<<10)
	for b.Loop() {
		h := &hiding{ReadCloser: io.NopCloser(bytes.NewReader(text)), resp: &http.Response{}, secret: s}
		for {
			if _, err := h.Read(buffer); err != nil {
				break
			}
		}
	}
}
