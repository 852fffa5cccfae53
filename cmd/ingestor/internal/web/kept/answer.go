// Package kept keeps answers of a server, so that asking again costs little more than
// sending them. An [Answer] is what is sent, also compressed. A [Store] keeps answers for as
// long as they are true, within bounds, and has one request make what several ask for.
package kept

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Answer is an answer to a GET request, with status 200. It is never changed.
type Answer struct {
	// Until is when the answer stops being true. An answer without it is not kept.
	Until time.Time

	plain  form
	often  bool // it is sent often enough to be compressed
	zip    sync.Once
	zipped *form // see compressed
}

// form is an answer as it is sent. The values of its headers are made once.
type form struct {
	body        []byte
	tag         string
	header      http.Header
	notModified http.Header
}

// New returns an answer with the headers that belong to the body. It takes both over.
func New(header http.Header, body []byte) *Answer {
	sum := sha256.Sum256(body)
	if !slices.Contains(header["Vary"], "Accept-Encoding") {
		header["Vary"] = append(header["Vary"], "Accept-Encoding")
	}
	return &Answer{plain: newForm(header, body, base64.RawURLEncoding.EncodeToString(sum[:12]))}
}

// Always returns an answer that is always true, such as a file of the program.
func Always(header http.Header, body []byte) *Answer {
	a := New(header, body)
	a.often = true
	return a
}

func newForm(header http.Header, body []byte, tag string) form {
	f := form{body, `"` + tag + `"`, maps.Clone(header), maps.Clone(header)}
	f.header.Set("ETag", f.tag)
	f.header.Set("Content-Length", strconv.Itoa(len(body)))
	f.notModified.Set("ETag", f.tag)
	f.notModified.Del("Content-Type")
	f.notModified.Del("Content-Encoding")
	f.notModified.Del("Content-Length") // of the plain answer
	return f
}

// Send sends the answer, unless the client already has it. It compresses a kept answer for
// clients that accept gzip. The compressed one has an ETag of its own, as its bytes differ.
func (a *Answer) Send(w http.ResponseWriter, r *http.Request) {
	f := &a.plain
	if a.often && acceptsGzip(r.Header["Accept-Encoding"]) {
		f = a.compressed()
	}
	if names(r.Header["If-None-Match"], f.tag) {
		maps.Copy(w.Header(), f.notModified)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	maps.Copy(w.Header(), f.header)
	_, _ = w.Write(f.body) // the client may have hung up
}

// names reports whether If-None-Match names a tag. Our tags contain no comma.
func names(headers []string, tag string) bool {
	for _, list := range headers {
		if list == tag { // as most clients send it
			return true
		}
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimSpace(t)
			if t == "*" || strings.TrimPrefix(t, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// acceptsGzip reports whether a client accepts gzip, and prefers nothing else that we have.
func acceptsGzip(headers []string) bool {
	if len(headers) == 1 && headers[0] == "gzip" { // as most programs send it
		return true
	}
	zipped, other, plain := -1.0, -1.0, -1.0
	for _, list := range headers {
		for part := range strings.SplitSeq(strings.ToLower(list), ",") {
			name, parameter, _ := strings.Cut(part, ";")
			weight := 1.0
			if q, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
				weight, _ = strconv.ParseFloat(strings.TrimSpace(q), 64) // a bad one counts as 0
			}
			switch strings.TrimSpace(name) {
			case "gzip", "x-gzip":
				zipped = weight
			case "identity":
				plain = weight
			case "*":
				other = weight
			}
		}
	}
	if zipped < 0 {
		zipped = other
	}
	return zipped > 0 && zipped >= plain
}

// worthwhile is the length from which compressing saves a packet.
const worthwhile = 1400

// writers are reused: one takes most of a megabyte.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// compressed returns the answer in gzip, which it makes for the first client, or the plain
// one if that saves nothing.
func (a *Answer) compressed() *form {
	a.zip.Do(func() {
		a.zipped = &a.plain
		if len(a.plain.body) < worthwhile {
			return
		}
		var b bytes.Buffer
		w := writers.Get().(*gzip.Writer)
		defer writers.Put(w)
		w.Reset(&b)
		_, _ = w.Write(a.plain.body) // a buffer takes everything
		if _ = w.Close(); b.Len() >= len(a.plain.body) {
			return
		}
		header := maps.Clone(a.plain.header)
		header.Set("Content-Encoding", "gzip")
		f := newForm(header, bytes.Clone(b.Bytes()), strings.Trim(a.plain.tag, `"`)+".gz")
		a.zipped = &f
	})
	return a.zipped
}

// size bounds the memory that the answer takes, also once it is compressed.
func (a *Answer) size(key string) int { return 2*len(a.plain.body) + len(key) + 4096 }

// Capture returns the answer of a handler, for every client that asks the same. An answer with
// another status than 200 is an error, which [SendOther] sends.
func Capture(h http.Handler, r *http.Request) (*Answer, error) {
	r = r.Clone(r.Context())
	r.Header.Del("If-None-Match") // of this client alone
	r.Header.Del("Accept-Encoding")
	own := Record(h, r)
	if own.Status != http.StatusOK {
		return nil, own
	}
	for _, name := range []string{"ETag", "Content-Length"} { // the answer has its own
		own.header.Del(name)
	}
	return New(own.header, own.body.Bytes()), nil
}

// SendOther sends the answer that err is, and reports whether it is one.
func SendOther(w http.ResponseWriter, err error) bool {
	o, is := err.(*Other) //nolint:errorlint // nobody wraps it
	if is {
		maps.Copy(w.Header(), o.header)
		w.WriteHeader(o.Status)
		_, _ = w.Write(o.body.Bytes()) // the client may have hung up
	}
	return is
}

// Other is an answer in memory. It is an error if its status is not 200.
type Other struct {
	Status int
	header http.Header
	body   bytes.Buffer
}

// Record returns what a handler answers.
func Record(h http.Handler, r *http.Request) *Other {
	o := &Other{Status: http.StatusOK, header: http.Header{}}
	h.ServeHTTP(o, r)
	return o
}

// Header is part of [http.ResponseWriter].
func (o *Other) Header() http.Header { return o.header }

// WriteHeader is part of [http.ResponseWriter].
func (o *Other) WriteHeader(status int) { o.Status = status }

func (o *Other) Write(b []byte) (int, error) { return o.body.Write(b) }

func (o *Other) Error() string { return http.StatusText(o.Status) }
