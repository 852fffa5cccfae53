package grpcmeter_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/meter/grpcmeter"
)

const ads = `
revision: 1
upstreams:
  ads:
    hosts: ["127.0.0.1:*"]
    api_key: {header: Developer-Token}
    free: [{status: 404}]
    refusals:
      - {status: 429, reason: RATE_LIMIT_EXCEEDED, for: 1h}
    feedback: [{pool: left, remaining: {header: X-Left}}]
    pools:
      operations: {quota: 10, windows: [{per: 1h}]}
      bytes: {quota: 100000, windows: [{per: 1h}]}
      left: {quota: 100, windows: [{per: 1h}]}
      at_once: {windows: [{in_flight: 2, ttl: 1m}]}
      learned: {quota: {learn: {from: 5, to: 50}}}
    methods:
      unary:
        route: POST /grpc.testing.TestService/UnaryCall
        charge:
          operations: 1
          bytes: {estimate: {body: responseSize, default: 3}, actual: {body: username}}
      stream:
        route: POST /grpc.testing.TestService/StreamingOutputCall
        charge: {operations: 2, at_once: 1, bytes: {estimate: 100, actual: {body: payload.body}}}
      collect: {route: POST /grpc.testing.TestService/StreamingInputCall, charge: {operations: 1, at_once: 1}}
      empty: {route: POST /grpc.testing.TestService/EmptyCall, charge: {left: 1}}
      half: {route: POST /grpc.testing.TestService/HalfDuplexCall, charge: {learned: 1, at_once: 1}}
    spill: [other]
    spill_methods: [collect]
  other:
    hosts: [other.example.com]
    pools: {calls: {quota: 10, windows: [{per: 1h}]}}
    methods: {collect: {route: POST /grpc.testing.TestService/StreamingInputCall, cost: 1}}
`

// bodies are the answers of a stream, as JSON has them.
var bodies = []string{"1000", "2040"}

// server is an upstream that answers as a test says.
type server struct {
	testpb.UnimplementedTestServiceServer
	unary func(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error)
	fails error // of a stream
	half  error
	hangs bool
}

func (s *server) UnaryCall(ctx context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return s.unary(ctx, r)
}

func (s *server) EmptyCall(ctx context.Context, _ *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, grpc.SetHeader(ctx, metadata.Pairs("x-left", "40"))
}

func (s *server) StreamingOutputCall(_ *testpb.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	if s.fails != nil {
		return s.fails
	}
	for _, text := range bodies {
		body, err := base64.StdEncoding.DecodeString(text) // as it is in JSON
		if err != nil {
			return err
		}
		if err := to.Send(&testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: body}}); err != nil {
			return err
		}
	}
	if s.hangs {
		<-to.Context().Done()
	}
	return nil
}

func (s *server) HalfDuplexCall(grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	return s.half
}

func (s *server) StreamingInputCall(from grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	for {
		if _, err := from.Recv(); err != nil {
			return from.SendAndClose(&testpb.StreamingInputCallResponse{})
		}
	}
}

// rig is a client of a server over a real connection.
type rig struct {
	*testing.T
	testpb.TestServiceClient
	server *server
	ledger *quota.Ledger
	meter  *grpcmeter.Meter
}

func newRig(t *testing.T, o *meter.Options) *rig {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b, err := book.Parse("costs.yaml", []byte(strings.ReplaceAll(ads, "127.0.0.1:*", listener.Addr().String())), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, server: &server{}}
	if r.ledger, err = quota.New(b, memstore.New(nil), nil); err != nil {
		t.Fatal(err)
	}
	if r.meter, err = grpcmeter.New(r.ledger, o); err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	testpb.RegisterTestServiceServer(s, r.server)
	go s.Serve(listener) // until it is stopped
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(r.meter.Unary), grpc.WithStreamInterceptor(r.meter.Stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); s.Stop() })
	r.TestServiceClient = testpb.NewTestServiceClient(conn)
	return r
}

// used checks what the pools have used.
func (r *rig) used(want map[string]int64) {
	r.Helper()
	if err := errors.Join(r.meter.Flush(r.Context()), r.ledger.Flush(r.Context())); err != nil {
		r.Fatal(err)
	}
	all, err := r.ledger.View().Usage(r.Context(), "ads", "")
	if err != nil {
		r.Fatal(err)
	}
	for _, u := range all {
		if got := u.Allowances[0].Used; got != want[u.Pool.Name] {
			r.Errorf("%s: %d used, want %d", u.Pool.Name, got, want[u.Pool.Name])
		}
	}
}

func TestUnaryCalls(t *testing.T) {
	r := newRig(t, &meter.Options{Keys: map[string]meter.KeySource{"ads": meter.Key("s3cret")}})
	var sent []string
	r.server.unary = func(ctx context.Context, _ *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		sent = append(md["developer-token"], md["x-own"]...)
		return &testpb.SimpleResponse{Username: "25"}, nil
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-own", "mine")
	got, err := r.UnaryCall(ctx, &testpb.SimpleRequest{ResponseSize: 40})
	if err != nil || got.GetUsername() != "25" {
		t.Fatal(got, err)
	}
	if strings.Join(sent, " ") != "s3cret mine" {
		t.Errorf("the server got %q", sent)
	}
	r.used(map[string]int64{"operations": 1, "bytes": 25})
	t.Run("one that is free", func(t *testing.T) {
		r.server.unary = func(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
			return nil, status.Error(codes.NotFound, "gone")
		}
		if _, err := r.UnaryCall(t.Context(), &testpb.SimpleRequest{}); status.Code(err) != codes.NotFound {
			t.Errorf("error %v", err)
		}
		r.used(map[string]int64{"operations": 1, "bytes": 25})
	})
	t.Run("one that fails keeps its estimate", func(t *testing.T) {
		r.server.unary = func(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
			return nil, status.Error(codes.Internal, "sorry")
		}
		if _, err := r.UnaryCall(t.Context(), &testpb.SimpleRequest{ResponseSize: 5}); status.Code(err) != codes.Internal {
			t.Errorf("error %v", err)
		}
		r.used(map[string]int64{"operations": 2, "bytes": 30})
	})
	t.Run("one that is too much is not sent", func(t *testing.T) {
		r.server.unary = func(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
			t.Error("it was sent")
			return nil, nil
		}
		_, err := r.UnaryCall(t.Context(), &testpb.SimpleRequest{ResponseSize: 99980})
		var refused *quota.RefusedError
		if !errors.As(err, &refused) || status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("error %v", err)
		}
		for _, d := range status.Convert(err).Details() {
			if retry, is := d.(*errdetails.RetryInfo); is && retry.GetRetryDelay().AsDuration() == refused.RetryAfter {
				return
			}
		}
		t.Errorf("the status has no RetryInfo of %s: %v", refused.RetryAfter, status.Convert(err).Details())
	})
	t.Run("one that cannot fit before its deadline is refused at once", func(t *testing.T) {
		r := newRig(t, &meter.Options{MaxWait: 24 * time.Hour})
		r.server.unary = func(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
			return &testpb.SimpleResponse{Username: "99999"}, nil
		}
		if _, err := r.UnaryCall(t.Context(), &testpb.SimpleRequest{ResponseSize: 99999}); err != nil {
			t.Fatal(err)
		}
		if err := r.meter.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		if _, err := r.UnaryCall(ctx, &testpb.SimpleRequest{ResponseSize: 5}); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("one without a price", func(t *testing.T) {
		if _, err := r.CacheableUnaryCall(t.Context(), &testpb.SimpleRequest{}); !errors.Is(err, quota.ErrUnpriced) || status.Code(err) != codes.FailedPrecondition {
			t.Errorf("error %v", err)
		}
	})
	t.Run("metadata report what is left", func(t *testing.T) {
		if _, err := r.EmptyCall(t.Context(), &testpb.Empty{}); err != nil {
			t.Fatal(err)
		}
		r.used(map[string]int64{"operations": 2, "bytes": 30, "left": 60})
	})
}

// exhausted is how Google's APIs refuse.
func exhausted(t *testing.T) error {
	s, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(
		&errdetails.ErrorInfo{Reason: "RATE_LIMIT_EXCEEDED"}, &errdetails.RetryInfo{RetryDelay: durationpb.New(90 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// A refusal shuts the pools for as long as its RetryInfo says.
func TestRefusals(t *testing.T) {
	check := func(t *testing.T, err, again error) {
		t.Helper()
		var refused *quota.RefusedError
		if status.Code(err) != codes.ResourceExhausted || errors.As(err, &refused) {
			t.Errorf("the first call: %v, want the server's error", err)
		}
		if !errors.As(again, &refused) || !refused.Blocked || refused.RetryAfter > 90*time.Second || refused.RetryAfter < 60*time.Second {
			t.Errorf("the second call: %v", again)
		}
	}
	t.Run("unary", func(t *testing.T) {
		r := newRig(t, nil)
		r.server.unary = func(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error) { return nil, exhausted(t) }
		_, err := r.UnaryCall(t.Context(), &testpb.SimpleRequest{})
		_, again := r.UnaryCall(t.Context(), &testpb.SimpleRequest{})
		check(t, err, again)
	})
	t.Run("stream", func(t *testing.T) {
		r := newRig(t, nil)
		r.server.fails = exhausted(t)
		s, err := r.StreamingOutputCall(t.Context(), &testpb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		_, again := r.StreamingOutputCall(t.Context(), &testpb.StreamingOutputCallRequest{})
		check(t, err, again)
	})
}

// A connection leads to one upstream, so its calls never spill to another one.
func TestNoSpill(t *testing.T) {
	r := newRig(t, nil)
	if err := r.ledger.Block(t.Context(), quota.Pool{Upstream: "ads", Account: "default", Name: "operations"}, time.Now().Add(time.Hour), "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.StreamingInputCall(t.Context()); !errors.Is(err, quota.ErrBlocked) {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestStreams(t *testing.T) {
	t.Run("to its end", func(t *testing.T) {
		r := newRig(t, nil)
		for n := range int64(5) { // gRPC ends the stream before it returns the last error
			s, err := r.StreamingOutputCall(t.Context(), &testpb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			r.used(map[string]int64{"operations": 2*n + 2, "bytes": 2040*n + 100, "at_once": 1})
			for _, want := range bodies {
				if m, err := s.Recv(); err != nil || base64.StdEncoding.EncodeToString(m.GetPayload().GetBody()) != want {
					t.Fatal(m, err)
				}
			}
			for range 2 {
				if _, err := s.Recv(); !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %v", err)
				}
			}
			r.used(map[string]int64{"operations": 2*n + 2, "bytes": 2040 * (n + 1)}) // the last one counts
		}
	})
	t.Run("given up", func(t *testing.T) {
		r := newRig(t, nil)
		r.server.hangs = true
		ctx, cancel := context.WithCancel(t.Context())
		s, err := r.StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			all, err := r.ledger.View().Usage(t.Context(), "ads", "")
			if err != nil {
				t.Fatal(err)
			}
			taken := int64(0)
			for _, u := range all {
				if u.Pool.Name == "at_once" {
					taken = u.Allowances[0].Used
				}
			}
			if taken == 0 {
				break
			} else if time.Now().After(end) {
				t.Fatal("its slot is not given back")
			}
		}
		r.used(map[string]int64{"operations": 2, "bytes": 100})
	})
	t.Run("of requests", func(t *testing.T) {
		r := newRig(t, nil)
		for range 20 { // gRPC ends the stream before it returns the answer
			s, err := r.StreamingInputCall(t.Context())
			if errors.Is(err, quota.ErrRefused) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&testpb.StreamingInputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CloseAndRecv(); err != nil {
				t.Fatal(err)
			}
		}
		r.used(map[string]int64{"operations": 10})
	})
	t.Run("refused", func(t *testing.T) {
		r := newRig(t, nil)
		for range 2 {
			if _, err := r.StreamingInputCall(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, err := r.StreamingInputCall(t.Context())
		if !errors.Is(err, quota.ErrRefused) || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a third at once: %v", err)
		}
	})
}

// A price book that is not about a refusal sends on and on. The log says so once for each method.
func TestLogSaysOnceThatRefusalsBlockNothing(t *testing.T) {
	var log strings.Builder
	r := newRig(t, &meter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r.server.fails = status.Error(codes.ResourceExhausted, "slow down") // no reason, which the rule asks for
	r.server.unary = func(context.Context, *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
		return nil, r.server.fails
	}
	for range 2 {
		if _, err := r.UnaryCall(t.Context(), &testpb.SimpleRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
		s, err := r.StreamingOutputCall(t.Context(), &testpb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	for _, method := range []string{"unary", "stream"} {
		if n := strings.Count(log.String(), "method="+method+" "); n != 1 {
			t.Errorf("%d lines of %s, want 1:\n%s", n, method, &log)
		}
	}
	if n := strings.Count(log.String(), `level=WARN msg="refused by the upstream, which blocks nothing`); n != 2 {
		t.Errorf("%d warnings, want 2:\n%s", n, &log)
	}
}

// Options that would take the place of gRPC are bad input.
func TestOptions(t *testing.T) {
	r := newRig(t, nil)
	for _, o := range []*meter.Options{{Refused: meter.As429}, {Base: http.DefaultTransport}} {
		if _, err := grpcmeter.New(r.ledger, o); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("error %v", err)
		}
	}
	if err := new(grpcmeter.Meter).Unary(t.Context(), "", nil, nil, nil, nil); err == nil {
		t.Error("a meter that nobody made calls")
	}
}

// A call that the upstream refuses is told to its learned limit, also if no rule is about it. Its slots stay open.
func TestALearnedLimitIsToldOfRefusals(t *testing.T) {
	for name, of := range map[string]string{"with a rule": "RATE_LIMIT_EXCEEDED", "without one": "SLOW_DOWN"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &meter.Options{Logger: slog.New(slog.DiscardHandler)})
			no, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.ErrorInfo{Reason: of})
			if err != nil {
				t.Fatal(err)
			}
			r.server.half = no.Err()
			s, err := r.HalfDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
			usage, err := r.ledger.View().Usage(t.Context(), "ads", "")
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range usage {
				if !u.Blocked.IsZero() {
					t.Errorf("%s is blocked", u.Pool)
				}
				if u.Pool.Name == "learned" && u.Learned.Refusals != 1 {
					t.Errorf("learned is %+v, want 1 refusal", u.Learned)
				}
			}
		})
	}
}
