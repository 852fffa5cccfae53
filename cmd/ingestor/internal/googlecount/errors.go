package googlecount

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"cloud.google.com/go/auth"
	"google.golang.org/api/googleapi"
)

// Kind is the kind of an [Error].
type Kind string

// These are the kinds of errors.
const (
	Misconfigured Kind = "misconfigured" // the project, or the file of the credentials
	Credential    Kind = "credential"    // Google does not accept the credentials
	Rights        Kind = "rights"        // a role is missing, or the API is not enabled
	Down          Kind = "down"          // Google cannot be reached, or does not answer now
)

// Error says why a count could not be read. It never quotes credentials, nor what a
// server answered.
type Error struct {
	Kind   Kind
	Says   string
	Remedy string // the next command to type; may be empty
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Says
	}
	return e.Says + "\n" + e.Remedy
}

var errPartial = errors.New("a part is missing")

// noSuchMetric reports whether a project has never had a type of series. The project
// itself is there.
func noSuchMetric(err error) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == http.StatusNotFound && strings.Contains(strings.ToLower(answer.Message), "metric")
}

// explain says why a request failed.
func (r *Reader) explain(ctx context.Context, err error) error {
	var answer *googleapi.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &answer):
		return r.refused(answer)
	case errors.Is(err, errPartial):
		return &Error{Kind: Down, Says: "Cloud Monitoring has answered only in part"}
	}
	return &Error{Kind: Down, Says: "Cloud Monitoring cannot be reached: " + cause(err)}
}

// noToken says why there is no token for the credentials. The error of the token server
// may repeat them.
func (r *Reader) noToken(ctx context.Context, err error) error {
	var answer *auth.Error
	switch why := cause(err); {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &answer) && answer.Response != nil && (answer.Response.StatusCode >= http.StatusInternalServerError || answer.Response.StatusCode == http.StatusTooManyRequests):
		return &Error{Kind: Down, Says: fmt.Sprintf("Google's token server has answered with status %d", answer.Response.StatusCode)}
	case why != unknown:
		return &Error{Kind: Down, Says: "Google's token server cannot be reached: " + why}
	}
	return r.unusable()
}

// refused explains an answer of Cloud Monitoring.
func (r *Reader) refused(answer *googleapi.Error) error {
	switch reason, consumer := errorInfo(answer); {
	case reason == "SERVICE_DISABLED":
		in := r.project
		if isProject(consumer) && consumer != "" {
			in = consumer
		}
		return &Error{Rights, "the Cloud Monitoring API is not enabled in the project " + in, "To enable it: gcloud services enable monitoring.googleapis.com --project " + in}
	case answer.Code == http.StatusUnauthorized:
		return r.unusable()
	case answer.Code == http.StatusForbidden:
		who, member := "these credentials", "user:YOU@EXAMPLE.COM"
		if r.account != "" {
			_, who, _ = strings.Cut(r.account, ":")
			member = r.account
		}
		return &Error{
			Rights, fmt.Sprintf("%s may not read Cloud Monitoring in the project %s: the role roles/monitoring.viewer is missing", who, r.project),
			fmt.Sprintf("To grant it: gcloud projects add-iam-policy-binding %s --member %s --role roles/monitoring.viewer", r.project, member),
		}
	case answer.Code == http.StatusNotFound, answer.Code == http.StatusBadRequest:
		return &Error{Misconfigured, fmt.Sprintf("Cloud Monitoring knows no project %s (status %d)", r.project, answer.Code), "Set google_project to the project of the API key, as my-project-1234"}
	}
	return &Error{Kind: Down, Says: fmt.Sprintf("Cloud Monitoring has answered with status %d %s", answer.Code, http.StatusText(answer.Code))}
}

// unusable says that Google does not accept the credentials.
func (r *Reader) unusable() error {
	if r.file == "" {
		return &Error{Credential, "there are no Google credentials that work: an API key cannot read Google's own count", "Set google_credentials to the file of a service account's key, or run: gcloud auth application-default login"}
	}
	remedy := "To log in again: gcloud auth application-default login"
	if _, email, is := strings.Cut(r.account, ":"); is {
		remedy = "To make a new key: gcloud iam service-accounts keys create FILE --iam-account " + email
	}
	return &Error{Credential, fmt.Sprintf("google_credentials: Google does not accept %s", r.file), remedy}
}

// errorInfo reads the reason of an answer, and whose API is meant.
func errorInfo(answer *googleapi.Error) (reason, consumer string) {
	var body struct {
		Error struct {
			Details []struct {
				Reason   string            `json:"reason"`
				Metadata map[string]string `json:"metadata"`
			} `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(answer.Body), &body) != nil {
		return "", ""
	}
	for _, d := range body.Error.Details {
		if d.Reason != "" {
			return d.Reason, strings.TrimPrefix(d.Metadata["consumer"], "projects/")
		}
	}
	return "", ""
}

// unknown is the cause of an error that may quote an answer.
const unknown = "the answer cannot be read"

// cause says in a few words why a server cannot be reached. The whole text may hold a URL,
// or what a server has answered.
func cause(err error) string {
	var timeout interface{ Timeout() bool }
	var number syscall.Errno
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &name):
		return "no such host"
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	}
	return unknown
}
