package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota/book"
)

// Message is a recorded request or answer. Its errors never show a line of it, which may
// have a key.
type Message struct {
	First  string // the request or status line; "" if only the body was recorded
	Header http.Header
	Body   []byte
}

// Errors of texts that are not a message.
var (
	ErrEmpty   = errors.New("is empty")
	ErrNotHTTP = errors.New("is not HTTP")
)

var (
	requestLine = pattern.Of(`^[A-Z]+ \S+( HTTP/[0-9.]+)?$`)
	statusLine  = pattern.Of(`^HTTP/[0-9.]+ ([1-9][0-9]{2})( .*)?$`)
	stream      = pattern.Of(`^(data|event|id|retry)?:`) // how server-sent events begin
)

// ReadRequest reads a raw HTTP request, or the body of one.
func ReadRequest(text []byte) (*Message, error) {
	if first, _ := line(text); !requestLine().MatchString(first) {
		return bodyOnly(text, false)
	}
	return read(text)
}

// ReadAnswer reads an answer as curl -i prints it, or the body of one. Of several answers,
// as curl -i -L prints them, it reads the last.
func ReadAnswer(text []byte) (*Message, error) {
	if first, _ := line(text); !statusLine().MatchString(first) {
		return bodyOnly(text, true)
	}
	m, err := read(text)
	if err != nil {
		return nil, err
	}
	if next, _ := line(m.Body); statusLine().MatchString(next) { // behind 100 Continue, a proxy or a redirect
		return ReadAnswer(m.Body)
	}
	m.plain()
	return m, nil
}

// bodyOnly takes a text as a body, if it looks like one that prices read.
func bodyOnly(text []byte, answer bool) (*Message, error) {
	body := bytes.TrimSpace(text)
	first, _ := line(body)
	switch {
	case len(body) == 0:
		return nil, ErrEmpty
	case json.Valid(body):
		return onlyBody("application/json", body), nil
	case answer && stream().MatchString(first):
		return onlyBody("text/event-stream", append(body, "\n\n"...)), nil
	case answer && json.Valid([]byte(first)):
		return onlyBody("application/x-ndjson", body), nil
	case body[0] == '{' || body[0] == '[':
		return nil, errors.New("is not valid JSON")
	}
	return nil, ErrNotHTTP
}

func onlyBody(kind string, body []byte) *Message {
	return &Message{Header: http.Header{"Content-Type": {kind}}, Body: body}
}

// read splits a message.
func read(text []byte) (*Message, error) {
	m := &Message{Header: http.Header{}}
	m.First, text = line(text)
	for n := 2; len(text) > 0; n++ {
		var field string
		if field, text = line(text); field == "" {
			break
		}
		name, value, ok := strings.Cut(field, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.Contains(name, " ") {
			return nil, fmt.Errorf("has a header in line %d that is not NAME: VALUE; an empty line stands before the body", n)
		}
		m.Header.Add(name, strings.TrimSpace(value))
	}
	m.Body = text
	return m, nil
}

// line splits the first line off, without its end.
func line(text []byte) (string, []byte) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSuffix(first, []byte("\r"))), rest
}

// plain removes the headers of a body that was decoded when it was recorded: curl decodes
// chunks, and with --compressed gzip, and still prints their headers.
func (m *Message) plain() {
	if m.Header.Get("Transfer-Encoding") != "" {
		if body, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(m.Body))); err == nil {
			m.Body = body
		}
		m.Header.Del("Transfer-Encoding")
	}
	if !bytes.HasPrefix(m.Body, []byte{0x1f, 0x8b}) && strings.EqualFold(m.Header.Get("Content-Encoding"), "gzip") {
		m.Header.Del("Content-Encoding")
	}
	m.Header.Del("Content-Length") // editors add lines, and bodies are shortened
}

// Status returns the status of an answer: 200 if only its body was recorded.
func (m *Message) Status() int {
	if parts := statusLine().FindStringSubmatch(m.First); parts != nil {
		status, _ := strconv.Atoi(parts[1])
		return status
	}
	return http.StatusOK
}

// Date returns when the upstream answered, or the zero time if the answer does not say.
func (m *Message) Date() time.Time {
	date, _ := http.ParseTime(m.Header.Get("Date"))
	return date
}

// response makes the answer to a request.
func (m *Message) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(m.Status()) + " " + http.StatusText(m.Status()), StatusCode: m.Status(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: m.Header.Clone(), Body: &pieces{bytes.NewReader(m.Body)}, ContentLength: -1, Request: req,
	}
}

// Read returns what sources of a price book find in an answer, or "" for each that finds
// nothing.
func (m *Message) Read(all ...*book.Source) []string {
	sources := content.NewSources(all...)
	reading := sources.Read(content.Message{Header: m.Header, Length: int64(len(m.Body)), Took: func() time.Duration { return 0 }})
	_, _ = reading.Write(m.Body)
	reading.End(true)
	found := make([]string, len(all))
	for i := range all {
		if n, ok := reading.Units(i); ok {
			found[i] = strconv.FormatInt(n, 10)
		} else {
			found[i], _ = reading.Text(i)
		}
	}
	return found
}

// pieces gives a body in small pieces, as a network does.
type pieces struct{ r io.Reader }

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), 100)]) }
func (p *pieces) Close() error               { return nil }

// Request makes the request that was recorded. Host is where it goes if it does not say.
func (m *Message) Request(host string) (*http.Request, error) {
	parts := strings.Fields(m.First)
	if len(parts) < 2 {
		return nil, errors.New("has no request line")
	}
	target, err := url.Parse(parts[1])
	switch {
	case err != nil || target.Opaque != "":
		return nil, errors.New("has no valid path in its request line")
	case target.Host != "":
	case m.Header.Get("Host") != "":
		target.Host = m.Header.Get("Host")
	default:
		target.Host = host
	}
	target.Scheme, target.User = "https", nil
	out := &http.Request{
		Method: parts[0], URL: target, Host: target.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: m.Header.Clone(), Body: http.NoBody, ContentLength: int64(len(m.Body)),
	}
	out.Header.Del("Host")
	out.Header.Del("Content-Length")
	if body := m.Body; len(body) > 0 {
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	}
	return out, nil
}
