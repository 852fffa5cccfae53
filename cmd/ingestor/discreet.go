package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// discreet takes the key out of answers that are no good. They end in errors, and so
// in logs and in the history of runs, and an upstream may name the key in them.
type discreet struct {
	header string // that carries the key
	base   http.RoundTripper
}

// mostOfAFault is how much is read of an answer that is no good.
const mostOfAFault = 1 << 20

// RoundTrip implements [http.RoundTripper].
func (d *discreet) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.base.RoundTrip(req)
	key := req.Header.Get(d.header)
	if err != nil || key == "" || resp.StatusCode < http.StatusMultipleChoices {
		return resp, err
	}
	hide := strings.NewReplacer(key, "[key]", url.QueryEscape(key), "[key]")
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostOfAFault))
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
