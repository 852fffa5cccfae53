package meter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headroom-quota/headroom/quota"
)

// ErrCredential is matched by a [CredentialError].
var ErrCredential = errors.New("credential error")

// CredentialError says that an account has no valid key: it has no key, or the upstream
// rejected it. Waiting does not help, and no pool is shut. It matches
// [ErrCredential] and never holds the key.
type CredentialError struct {
	Upstream string
	Account  string
	Status   int    // of the upstream's answer; 0 if nothing was sent
	Reason   string // why
	Err      error  // of the key's source
}

func (e *CredentialError) Error() string {
	s := e.Reason
	if e.Status != 0 {
		s = "the upstream does not let it be used: " + s + "; check the key and its restrictions"
	}
	s = "key of " + owner(e.Upstream, e.Account) + ": " + s
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *CredentialError) Is(target error) bool { return target == ErrCredential }

// Unwrap returns the error of the key's source.
func (e *CredentialError) Unwrap() error { return e.Err }

// BodyError says that a call was not sent: its price or the key of a pool stands in the body
// of the request, and the upstream might read another one there. It matches
// [quota.ErrBadInput].
type BodyError struct {
	Upstream string
	Method   string
	Reason   string // what is wrong with the body
	TooLong  bool   // it is longer than the request_buffer of the price book
}

func (e *BodyError) Error() string {
	s := fmt.Sprintf("%s: the price or the key of %s stands in the body of the request, and %s", e.Upstream, e.Method, e.Reason)
	if e.TooLong {
		s += "; send a shorter one, or raise request_buffer of " + e.Upstream + " in costs.yaml"
	}
	return s
}

func (e *BodyError) Is(target error) bool { return target == quota.ErrBadInput }

// RedirectError says that a metered host sent the client elsewhere, which was
// refused: what is there may be neither the upstream nor priced.
type RedirectError struct {
	Upstream string
	From     string // scheme and host
	To       string // scheme and host; empty if WithKey is set
	WithKey  bool   // the new URL has the API key in it
}

func (e *RedirectError) Error() string {
	if e.WithKey {
		return fmt.Sprintf("%s redirects from %s to a URL that has the key in it, which was not followed: errors and logs would show it; "+
			"use the other address from the start, without the key", e.Upstream, e.From)
	}
	remedy := ""
	if from, to, _ := strings.Cut(e.From, "://"); from != "https" || strings.HasPrefix(e.To, "https://") {
		_, host, _ := strings.Cut(e.To, "://")
		if to != host {
			remedy = ", or add its host to redirects in costs.yaml"
		}
	}
	return fmt.Sprintf("%s redirects from %s to %s, which was not followed; use the other address from the start, if it is right%s", e.Upstream, e.From, e.To, remedy)
}
