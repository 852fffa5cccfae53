package session

import (
	"bytes"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// discreet removes the API key from error responses. An upstream may repeat the key in
// them, and their text ends in errors, logs and the history of runs.
type discreet struct {
	header string // of the key
	base   http.RoundTripper
}

// maxErrorBody is how much of an error response is read.
const maxErrorBody = 1 << 20

// RoundTrip implements [http.RoundTripper].
func (d *discreet) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.base.RoundTrip(req)
	key := req.Header.Get(d.header)
	if err != nil || key == "" || resp.StatusCode < http.StatusMultipleChoices {
		return resp, err
	}
	hide := strings.NewReplacer(key, "[key]", url.QueryEscape(key), "[key]")
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	body = []byte(hide.Replace(string(body)))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for _, values := range resp.Header {
		for i := range values {
			values[i] = hide.Replace(values[i])
		}
	}
	return resp, nil
}

// standardLog writes the lines of Go's standard logger to the log, without the texts that
// they quote. net/http quotes there what an upstream sends when nobody asked, and that may
// be a key, or a part of one.
type standardLog struct{ to *slog.Logger }

// redirectStandardLog redirects Go's standard logger.
func redirectStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(&standardLog{to})
}

var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|$)`)

// Write implements [io.Writer].
func (l *standardLog) Write(line []byte) (int, error) {
	l.to.Info(quotedText.ReplaceAllString(strings.TrimSpace(string(line)), "(hidden)"))
	return len(line), nil
}
