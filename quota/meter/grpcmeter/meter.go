package grpcmeter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Meter meters the calls of gRPC clients. It is made by [New], and safe for concurrent use.
type Meter struct{ transport *meter.Transport }

// New returns a meter that spends from the ledger, by its price book. The options Base and
// Refused must be nil.
func New(ledger *quota.Ledger, o *meter.Options) (*Meter, error) {
	own := meter.Options{}
	if o != nil {
		own = *o
	}
	if own.Base != nil || own.Refused != nil {
		return nil, quota.BadInput("grpcmeter: the calls are gRPC's; leave Base and Refused of meter.Options nil")
	}
	own.Base = base{}
	t, err := meter.New(ledger, &own)
	if err != nil {
		return nil, err
	}
	return &Meter{t}, nil
}

// Flush is [meter.Transport.Flush].
func (m *Meter) Flush(ctx context.Context) error { return m.transport.Flush(ctx) }

// Unary is a [grpc.UnaryClientInterceptor]. The error of a call that was not sent is the
// ledger's, as [meter.Transport.RoundTrip] returns it, and has a code of gRPC.
func (m *Meter) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var failed error
	resp, err := m.roundTrip(ctx, cc, method, req, func(r *http.Request) (*http.Response, error) {
		var head, tail metadata.MD
		ctx, opts := carry(r, opts)
		failed = invoker(ctx, method, req, reply, cc, append(opts, grpc.Header(&head), grpc.Trailer(&tail))...)
		return answer(r, failed, &lazy{of: reply}, head, tail), nil
	})
	if err != nil {
		return coded(err)
	}
	drain(resp)
	return failed
}

func (m *Meter) roundTrip(ctx context.Context, cc *grpc.ClientConn, method string, message any, send sender) (*http.Response, error) {
	if m == nil || m.transport == nil || cc == nil {
		return nil, quota.BadInput("grpcmeter: this meter was not made by grpcmeter.New")
	}
	caller := meter.CallerOf(ctx)
	caller.Spill = func(*http.Request, *book.Match, bool) bool { return false } // the connection leads to one upstream
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: hostOf(cc.Target()), Path: method},
		Header: http.Header{}, Body: http.NoBody,
	}).WithContext(context.WithValue(meter.WithCaller(ctx, caller), senderKey{}, send))
	own, _ := metadata.FromOutgoingContext(ctx)
	for name, values := range own {
		r.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if msg, is := message.(proto.Message); is {
		if size := proto.Size(msg); size > 0 {
			r.ContentLength = int64(size)
			r.GetBody = func() (io.ReadCloser, error) { return &lazy{of: msg}, nil }
			r.Body = &lazy{of: msg}
		}
	}
	return m.transport.RoundTrip(r) // the callers drain its body
}

// hostOf returns the host of a target such as dns:///example.com:443.
func hostOf(target string) string {
	if i := strings.LastIndexByte(target, '/'); i >= 0 {
		target = target[i+1:]
	}
	if host, port, err := net.SplitHostPort(target); err == nil && port == "443" {
		return host
	}
	return target
}

// sender makes the call of a request.
type sender func(*http.Request) (*http.Response, error)

type senderKey struct{}

// base is where the transport sends its requests.
type base struct{}

func (base) RoundTrip(r *http.Request) (*http.Response, error) {
	send, ok := r.Context().Value(senderKey{}).(sender)
	if !ok {
		return nil, errors.New("grpcmeter: the request is not of an interceptor")
	}
	return send(r)
}

// carry returns the context and the options with which a request is sent. The headers that
// the transport has set are credentials, and gRPC sends those over TLS only.
func carry(r *http.Request, opts []grpc.CallOption) (context.Context, []grpc.CallOption) {
	ctx := r.Context()
	own, _ := metadata.FromOutgoingContext(ctx)
	md, keys := metadata.MD{}, secret{local: loopback(r.URL.Hostname()), of: map[string]string{}}
	for name, values := range r.Header {
		if name = strings.ToLower(name); slices.Equal(own[name], values) {
			md[name] = values
		} else if len(values) > 0 {
			keys.of[name] = values[0]
		}
	}
	opts = slices.Clone(opts)
	if len(keys.of) > 0 {
		opts = append(opts, grpc.PerRPCCredentials(keys))
	}
	return metadata.NewOutgoingContext(ctx, md), opts
}

// secret are the keys of a call.
type secret struct {
	local bool
	of    map[string]string
}

func (s secret) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return s.of, nil
}

func (s secret) RequireTransportSecurity() bool { return !s.local }

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// lazy is a message as JSON, if somebody reads it.
type lazy struct {
	of   any
	text *bytes.Reader
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.text == nil {
		l.text = bytes.NewReader(jsonOf(l.of))
	}
	return l.text.Read(p)
}

func (l *lazy) Close() error { return nil }

// jsonOf returns a message as JSON; nothing if it is not one of protobuf, or cannot be written.
func jsonOf(message any) []byte {
	msg, is := message.(proto.Message)
	if !is {
		return nil
	}
	text, err := protojson.Marshal(msg)
	if err != nil {
		return nil
	}
	return text
}

// drain reads an answer to its end, if the transport wants to see it.
func drain(resp *http.Response) {
	switch resp.Body.(type) {
	case *lazy, lines:
	default:
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	_ = resp.Body.Close()
}
