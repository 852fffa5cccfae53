package grpcmeter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// statuses are those of HTTP that Google's APIs use for the codes of gRPC.
var statuses = map[codes.Code]int{
	codes.OK: 200, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504,
	codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429,
	codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
	codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
}

// answer returns the answer over HTTP that means what a call has returned.
func answer(r *http.Request, err error, body io.ReadCloser, all ...metadata.MD) *http.Response {
	code := statuses[status.Code(err)]
	resp := &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
	for _, md := range all {
		for name, values := range md {
			if name != "content-type" && name != "content-encoding" {
				resp.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	if err == nil {
		return resp
	}
	s := status.Convert(err)
	for _, d := range s.Details() {
		if retry, is := d.(*errdetails.RetryInfo); is {
			resp.Header.Set("Retry-After", strconv.FormatFloat(math.Ceil(retry.GetRetryDelay().AsDuration().Seconds()*1000)/1000, 'f', -1, 64))
		}
	}
	of := jsonOf(s.Proto())
	if of == nil { // a detail of a type that this program does not know
		of, _ = json.Marshal(map[string]any{"code": s.Code(), "message": s.Message()})
	}
	resp.Body = io.NopCloser(bytes.NewReader(append(append([]byte(`{"error":`), of...), '}')))
	return resp
}

// codedError is an error of a call that was not sent, with a code for programs that look at
// nothing else.
type codedError struct {
	error
	code codes.Code
}

func (e *codedError) Unwrap() error { return e.error }

// GRPCStatus returns what package status makes of the error. A refusal has a RetryInfo,
// as servers of gRPC send it.
func (e *codedError) GRPCStatus() *status.Status {
	s := status.New(e.code, e.Error())
	if refused, ok := errors.AsType[*quota.RefusedError](e.error); ok {
		if told, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(refused.RetryAfter)}); err == nil {
			return told
		}
	}
	return s
}

func coded(err error) error {
	code := codes.Unknown
	switch {
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, quota.ErrRefused):
		code = codes.ResourceExhausted
	case errors.Is(err, quota.ErrOutage):
		code = codes.Unavailable
	case errors.Is(err, meter.ErrCredential):
		code = codes.Unauthenticated
	case errors.Is(err, quota.ErrImpossible), errors.Is(err, quota.ErrUnpriced), errors.Is(err, quota.ErrBadInput):
		code = codes.FailedPrecondition
	}
	return &codedError{err, code}
}
