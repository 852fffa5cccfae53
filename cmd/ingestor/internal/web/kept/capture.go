package kept

import (
	"bytes"
	"maps"
	"net/http"
)

// Capture returns the answer of a handler, for every client that asks the same. An answer with
// another status than 200 is an error, which [SendOther] sends.
func Capture(h http.Handler, r *http.Request) (*Answer, error) {
	r = r.Clone(r.Context())
	r.Header.Del("If-None-Match") // of this client alone
	r.Header.Del("Accept-Encoding")
	own := other{header: http.Header{}, status: http.StatusOK}
	if h.ServeHTTP(&own, r); own.status != http.StatusOK {
		return nil, &own
	}
	for _, name := range []string{"ETag", "Content-Length"} { // the answer has its own
		own.header.Del(name)
	}
	return New(own.header, own.body.Bytes()), nil
}

// SendOther sends the answer that err is, and reports whether it is one.
func SendOther(w http.ResponseWriter, err error) bool {
	o, is := err.(*other) //nolint:errorlint // nobody wraps it
	if is {
		maps.Copy(w.Header(), o.header)
		w.WriteHeader(o.status)
		_, _ = w.Write(o.body.Bytes()) // the client may have hung up
	}
	return is
}

// other is an answer in memory. It is an error if its status is not 200.
type other struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (o *other) Header() http.Header { return o.header }

// WriteHeader implements [http.ResponseWriter].
func (o *other) WriteHeader(status int) { o.status = status }

// Write implements [http.ResponseWriter].
func (o *other) Write(b []byte) (int, error) { return o.body.Write(b) }

func (o *other) Error() string { return http.StatusText(o.status) }
