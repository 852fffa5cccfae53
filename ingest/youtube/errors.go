package youtube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/api/googleapi"

	"github.com/headroom-quota/headroom/internal/pattern"
)

// ErrPageToken says that the page token of the cursor has expired, or that its list is
// gone. Restart the pass.
var ErrPageToken = errors.New("the page token has expired")

// Error is a call that failed. It wraps the error of the transport, without the URL of the
// request. It never contains the key.
type Error struct {
	Method  string // videos.list
	About   string // the request, in words
	Status  int    // of the answer; 0: there was none
	Reason  string // the upstream's code for the error, such as backendError
	Message string // the upstream's
	Err     error  // the cause; may be nil

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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a retry of the call may succeed soon: the upstream failed, the
// connection broke, or the call timed out. A refusal by the upstream is temporary, too. The
// ledger knows of it by the next attempt, refuses that, and says when to retry. An error of
// the transport itself, such as a refusal or an outage of the ledger, is never temporary.
func Temporary(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.temporary
}

// Refused reports whether the upstream has refused a call for now, because there were too many. When the
// next one may go is the ledger's to say.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusForbidden && slices.Contains(usedUp, e.Reason))
}

// failed returns an Error for an error of the SDK.
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
	case errors.Is(err, context.Canceled): // the caller ended the call
	case errors.Is(err, context.DeadlineExceeded):
		e.temporary = true
	case errors.As(err, new(*json.SyntaxError)):
		e.Err = errors.New("the answer is no JSON but perhaps a web page: see the setting endpoint, and what is between this machine and the upstream")
		e.temporary = true
	default: // the answer broke off
		e.Err = fmt.Errorf("read the answer: %w", err)
		e.temporary = true
	}
	return e
}

// answered returns the list that a call of the SDK returned. If the answer is not from the
// upstream, for example from a proxy, it returns an error rather than an empty list.
func answered[T any](list *T, err error) (*T, error) {
	switch {
	case err != nil:
		return list, err
	case list == nil:
		return nil, errors.New("the answer is null")
	case !strings.HasPrefix(kind(list), "youtube#"):
		return nil, errors.New("the answer is not from YouTube: it has no kind that begins with youtube#")
	}
	return list, nil
}

func kind(list any) string { return reflect.ValueOf(list).Elem().FieldByName("Kind").String() }

// usedUp are the reasons of a 403 that ends after a wait.
var usedUp = []string{"quotaExceeded", "dailyLimitExceeded", "rateLimitExceeded", "userRateLimitExceeded"}

// broken reports whether a call failed because of its connection. It looks only at errors of
// the standard library. Other errors are the transport's own. They may wrap a broken
// connection, too, but that is the one to the ledger.
func broken(err error) bool {
	for ; err != nil && standard(err); err = errors.Unwrap(err) {
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // each error of the chain is checked by itself
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

// standard reports whether the type of an error is in the standard library.
func standard(err error) bool {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	root, _, _ := strings.Cut(t.PkgPath(), "/")
	return !strings.Contains(root, ".")
}

// reset reports whether an error is an HTTP/2 stream that was reset. Its type is hidden in
// net/http, but it converts itself to a struct with the same fields.
func reset(err error) bool {
	as, ok := err.(interface{ As(any) bool })
	return ok && as.As(&struct {
		StreamID uint32
		Code     uint32
		Cause    error
	}{})
}

// keys matches API keys. The upstream repeats a suspended key in its message.
var keys = pattern.Of(`(api_key:|key=)[^\s'"&]+|AIza[\w-]{20,}`)

func redact(s string) string { return keys().ReplaceAllString(s, "${1}[redacted]") }

// excerpt shortens a message, and puts it on one line.
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
