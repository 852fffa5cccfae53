package youtube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/api/googleapi"
	sdk "google.golang.org/api/youtube/v3"
)

// ErrPageToken says that the upstream does not know the cursor's token any more, or
// that what it belongs to is gone: begin the pass anew.
var ErrPageToken = errors.New("the page token is not good any more")

// Error is a call that failed. It wraps what the transport said, without the
// request's URL, and never holds the key.
type Error struct {
	Method  string // videos.list
	About   string // what was asked for
	Status  int    // of the upstream's answer; 0 if there was none
	Reason  string // the upstream's own word for it, such as backendError
	Message string // the upstream's
	Err     error  // what else there is to know; nil if that is all

	temporary bool
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Method + " " + e.About + ": "
	if e.Status == 0 {
		return s + redact(e.Err.Error())
	}
	s += fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Unwrap returns what else there is to know.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same call may go well in a moment: the upstream is
// not well, the connection broke, or the call took too long. It is so for a refusal
// of the upstream's too: by the next attempt the ledger knows of it, sends nothing,
// and says when to come again. What the transport says itself, such as a refusal or
// an outage of the ledger, is never temporary.
func Temporary(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.temporary
}

// failed makes an Error of what the SDK said about a call.
func failed(method, about string, err error) *Error {
	e := &Error{Method: method, About: about, Err: err}
	var answer *googleapi.Error
	var unanswered *url.Error
	switch {
	case errors.As(err, &answer):
		e.Status, e.Message, e.Err = answer.Code, excerpt(redact(answer.Message)), nil
		if len(answer.Errors) > 0 {
			e.Reason = redact(answer.Errors[0].Reason)
		}
		if e.Status == http.StatusBadRequest && e.Reason == "invalidPageToken" {
			e.Err = ErrPageToken
		}
		e.temporary = e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests || e.Status >= 500 ||
			e.Status == http.StatusForbidden && slices.Contains(usedUp, e.Reason)
	case errors.As(err, &unanswered):
		e.Err = unanswered.Err
		e.temporary = broken(e.Err)
	case errors.Is(err, context.Canceled): // by whoever asked for it
	case errors.Is(err, context.DeadlineExceeded):
		e.temporary = true
	default: // an answer had begun to come
		e.Err = fmt.Errorf("read the answer: %w", err)
		e.temporary = true
	}
	return e
}

// answered returns what a call of the SDK returned. An answer that is not the
// upstream's, such as a proxy's, is an error and not an empty list.
func answered[T any](list *T, err error) (*T, error) {
	switch {
	case err != nil:
		return list, err
	case list == nil:
		return nil, errors.New("it is null")
	case !strings.HasPrefix(kind(list), "youtube#"):
		return nil, errors.New("it is not of YouTube, whose answers say of what kind they are")
	}
	return list, nil
}

// kind is what an answer says it is.
func kind(list any) string {
	switch l := list.(type) {
	case *sdk.VideoListResponse:
		return l.Kind
	case *sdk.BatchGetStatsResponse:
		return l.Kind
	case *sdk.SearchListResponse:
		return l.Kind
	case *sdk.ChannelListResponse:
		return l.Kind
	case *sdk.PlaylistItemListResponse:
		return l.Kind
	}
	return ""
}

// usedUp are the reasons of a 403 that waiting heals.
var usedUp = []string{"quotaExceeded", "dailyLimitExceeded", "rateLimitExceeded", "userRateLimitExceeded"}

// broken reports whether a call without an answer met a connection that failed. An
// error that is not the standard library's is the transport's own; it may hold a
// broken connection too, but that is one to its ledger.
func broken(err error) bool {
	for ; err != nil && standard(err); err = errors.Unwrap(err) {
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // each error of the chain is looked at by itself
			return true
		}
		switch e := err.(type) { //nolint:errorlint // the same
		case *net.OpError:
			return true
		case interface{ Timeout() bool }:
			if e.Timeout() {
				return true
			}
		}
		if reset(err) {
			return true
		}
	}
	return false
}

// standard reports whether an error's type is the standard library's.
func standard(err error) bool {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	root, _, _ := strings.Cut(t.PkgPath(), "/")
	return !strings.Contains(root, ".")
}

// reset reports whether an error is an HTTP/2 stream that was reset. Its type is
// hidden in net/http, but it says what it is to one of the same shape.
func reset(err error) bool {
	as, ok := err.(interface{ As(any) bool })
	return ok && as.As(&struct {
		StreamID uint32
		Code     uint32
		Cause    error
	}{})
}

// keys are what an API key looks like. One that was suspended stands in the message
// that says so.
var keys = regexp.MustCompile(`(api_key:|key=)[^\s'"&]+|AIza[\w-]{20,}`)

func redact(s string) string { return keys.ReplaceAllString(s, "${1}[redacted]") }

// excerpt is a message on one line and of bearable length.
func excerpt(s string) string {
	const longest = 300
	s = strings.Join(strings.Fields(s), " ")
	for i := range s {
		if i > longest {
			return s[:i] + " ..."
		}
	}
	return s
}
