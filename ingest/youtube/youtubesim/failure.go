package youtubesim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// failure is an error of the upstream. The fields have the order of real answers, which come
// in two shapes.
type failure struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Errors  []reason `json:"errors"`
	Status  string   `json:"status,omitempty"`
	Details []any    `json:"details,omitempty"`

	old bool
}

type reason struct {
	Message      string `json:"message"`
	Domain       string `json:"domain"`
	Reason       string `json:"reason"`
	Location     string `json:"location,omitempty"`
	LocationType string `json:"locationType,omitempty"`
	ExtendedHelp string `json:"extendedHelp,omitempty"`
}

type oldFailure struct {
	Errors  []oldReason `json:"errors"`
	Code    int         `json:"code"`
	Message string      `json:"message"`
}

type oldReason struct {
	Domain       string `json:"domain"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	LocationType string `json:"locationType,omitempty"`
	Location     string `json:"location,omitempty"`
	ExtendedHelp string `json:"extendedHelp,omitempty"`
}

// failed returns a failure with one reason.
func failed(code int, domain, why, message string) *failure {
	return &failure{Code: code, Message: message, Errors: []reason{{Message: message, Domain: domain, Reason: why}}}
}

// at adds the location of the fault.
func (f *failure) at(location, kind string) *failure {
	f.Errors[0].Location, f.Errors[0].LocationType = location, kind
	return f
}

// status adds the status of Google's newer front end.
func (f *failure) status(s string, details ...any) *failure {
	f.Status, f.Details = s, details
	return f
}

// older adds the fields of Google's older front end.
func (f *failure) older() *failure {
	f.old = true
	return f
}

func (f *failure) body(pretty bool) []byte {
	var v any = f
	if f.old {
		o := oldFailure{Code: f.Code, Message: f.Message}
		for _, r := range f.Errors {
			o.Errors = append(o.Errors, oldReason{r.Domain, r.Reason, r.Message, r.LocationType, r.Location, r.ExtendedHelp})
		}
		v = o
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	if pretty {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(map[string]any{"error": v}); err != nil {
		panic(err) // it has no type that can fail
	}
	return b.Bytes()
}

func (f *failure) write(w http.ResponseWriter, pretty bool) {
	b := f.body(pretty)
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=UTF-8")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(f.Code)
	_, _ = w.Write(b)
}

// The documented errors of parameters. If the documentation has no message, the message is
// invented.

func missingParameter(name string) *failure {
	return failed(400, "youtube.parameter", "missingRequiredParameter", "The request is missing a required parameter: "+name).at(name, "parameter")
}

func noFilter(expected string) *failure {
	return failed(400, "youtube.parameter", "missingRequiredParameter", "No filter selected. Expected one of: "+expected).at("parameters.", "other")
}

func incompatible(names string) *failure {
	return failed(400, "youtube.parameter", "incompatibleParameters", "Incompatible parameters specified in the request: "+names).at("parameters.", "other")
}

func invalidFilter(name string) *failure {
	return failed(400, "youtube.parameter", "invalidFilters", "The request specifies an invalid filter parameter.").at(name, "parameter")
}

func invalidPageToken() *failure {
	return failed(400, "youtube.parameter", "invalidPageToken", "The request specifies an invalid page token.").at("pageToken", "parameter")
}

func invalidParameter(name, message string) *failure {
	return failed(400, "global", "invalidParameter", message).at(name, "parameter")
}

func unknownPart(part string) *failure {
	return failed(400, "youtube.part", "unknownPart", "'"+part+"'").at("part", "parameter")
}

func ownersPart(part string) *failure {
	return failed(403, "youtube.common", "forbidden", "The request is not authorized: only the owner may ask for '"+part+"'.").at("part", "parameter")
}

func loginRequired() *failure {
	return failed(401, "global", "required", "Login Required.").at("Authorization", "header").status("UNAUTHENTICATED")
}

func unknownParameter(name string) *failure {
	f := failed(400, "global", "badRequest", "Invalid JSON payload received. Unknown name \""+name+"\": Cannot bind query parameter. Field '"+name+"' could not be found in request message.")
	return f.status("INVALID_ARGUMENT", badRequest{
		"type.googleapis.com/google.rpc.BadRequest",
		[]fieldViolation{{f.Message}},
	})
}

type badRequest struct {
	Type            string           `json:"@type"`
	FieldViolations []fieldViolation `json:"fieldViolations"`
}

type fieldViolation struct {
	Description string `json:"description"`
}

// missingChart returns the documented error, or the one that users have reported.
func missingChart(code int) *failure {
	if code == http.StatusBadRequest {
		return failed(400, "youtube.video", "videoChartNotFound", "The requested video chart is not supported or is not available.").at("chart", "parameter")
	}
	return failed(404, "global", "notFound", "Requested entity was not found.").status("NOT_FOUND")
}
