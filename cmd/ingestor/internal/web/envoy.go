package web

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	entries "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// ServeEnvoy serves Envoy's rate limit service over gRPC from a listener, until ctx ends.
// Then calls under way finish, unless abort ends too. The listener does TLS. All but health
// checks need a token of a caller of /v1/. Connections are bounded as those of HTTP are, but
// apart from them.
func (s *Server) ServeEnvoy(ctx, abort context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.UnaryInterceptor(s.unaryCall), grpc.StreamInterceptor(s.streamCall),
		grpc.MaxRecvMsgSize(maxBody), grpc.MaxConcurrentStreams(maxCalls), grpc.ConnectionTimeout(s.o.Timeouts.Header),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * s.o.Timeouts.Idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}), // proxies ping idle connections
	)
	rls.RegisterRateLimitServiceServer(server, envoy{s})
	reflection.Register(server)
	healthy := grpchealth.NewServer()
	healthy.SetServingStatus(rls.RateLimitService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, healthy)
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(counted{l, s.crowd.Another()})
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	healthy.Shutdown()
	grace, cancel := context.WithTimeout(abort, s.o.Timeouts.Stop)
	defer cancel()
	defer context.AfterFunc(grace, server.Stop)()
	server.GracefulStop()
	return nil
}

func (s *Server) unaryCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer s.recoverCall(info.FullMethod, &err)
	if p, ok := peer.FromContext(ctx); ok {
		if at, is := p.Addr.(countedAddr); is {
			at.crowd.Works(at.conn, true)
			defer at.crowd.Works(at.conn, false)
		}
	}
	if ctx, err = s.authenticatedCall(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.Query)
	defer cancel()
	return handler(ctx, req)
}

func (s *Server) streamCall(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer s.recoverCall(info.FullMethod, &err)
	if _, err := s.authenticatedCall(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handler(srv, stream)
}

func (s *Server) recoverCall(method string, err *error) {
	if p := recover(); p != nil {
		s.o.Log.Error("answer a gRPC call", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error; the server's log has the details")
	}
}

// authenticatedCall adds the caller's token to the context. Health checks need none, but a
// watch does: it stays open, and would hold its connection and the end of the server.
func (s *Server) authenticatedCall(ctx context.Context, method string) (context.Context, error) {
	if method == healthpb.Health_Check_FullMethodName || method == healthpb.Health_List_FullMethodName {
		return ctx, nil
	}
	r := &http.Request{Method: http.MethodPost, Header: http.Header{}}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		r.Header["Authorization"] = md.Get("authorization")
	}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = p.Addr.String()
	}
	presented := bearer(r)
	if t := access.Find(s.current().Tokens, presented); t != nil {
		return context.WithValue(ctx, callerKey{}, t), nil
	}
	return nil, s.callError(method, s.guess(r, presented))
}

// codeOf are the gRPC codes of statuses of HTTP.
var codeOf = map[int]codes.Code{
	http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied, http.StatusTooManyRequests: codes.ResourceExhausted,
	http.StatusUnprocessableEntity: codes.InvalidArgument, http.StatusBadRequest: codes.InvalidArgument, http.StatusServiceUnavailable: codes.Unavailable,
}

// callError returns the error of a call. It hides internal errors, as over HTTP.
func (s *Server) callError(method string, err error) error {
	if errors.Is(err, context.Canceled) {
		return status.FromContextError(context.Canceled).Err()
	}
	p := problem.From(err)
	code, known := codeOf[p.Status]
	if !known {
		code = codes.Internal
	}
	if p.Status >= http.StatusInternalServerError {
		if due, skipped := s.door.Due(method); due {
			s.o.Log.Error("answer a gRPC call", "method", method, "code", code, "skipped", skipped, "error", err)
		}
	}
	return status.Error(code, p.Error())
}

// counted is a listener whose connections a crowd bounds.
type counted struct {
	net.Listener
	crowd *guard.Crowd
}

func (l counted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.crowd.Track(conn, http.StateNew)
	return countedConn{conn, l.crowd}, nil
}

// countedConn is a connection that its crowd forgets when it is closed.
type countedConn struct {
	net.Conn
	crowd *guard.Crowd
}

func (c countedConn) Close() error {
	c.crowd.Track(c.Conn, http.StateClosed)
	return c.Conn.Close()
}

// RemoteAddr implements [net.Conn]. A call knows only the address of its connection.
func (c countedConn) RemoteAddr() net.Addr { return countedAddr{c.Conn.RemoteAddr(), c.crowd, c.Conn} }

// countedAddr is the address of a client, with its connection.
type countedAddr struct {
	net.Addr
	crowd *guard.Crowd
	conn  net.Conn
}

// clamp returns a number for a field of 32 bits.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// envoy answers Envoy's rate limit service, by the same code as /v1/reserve.
type envoy struct{ *Server }

// ShouldRateLimit takes the units of each descriptor, in order and apart from the others.
// Descriptors that the price book does not have are not limited.
func (e envoy) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	switch n := len(r.GetDescriptors()); {
	case r.GetDomain() == "":
		return nil, status.Error(codes.InvalidArgument, "the domain is empty")
	case n == 0 || n > maxCalls:
		return nil, status.Errorf(codes.InvalidArgument, "send 1 to %d descriptors, not %d", maxCalls, n)
	}
	answer := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for i, d := range r.GetDescriptors() {
		one, err := e.limit(ctx, r, d)
		if err != nil {
			return nil, e.callError(rls.RateLimitService_ShouldRateLimit_FullMethodName, err)
		}
		if one.GetCode() == rls.RateLimitResponse_OVER_LIMIT {
			answer.OverallCode = rls.RateLimitResponse_OVER_LIMIT
		}
		answer.Statuses = append(answer.Statuses, one)
		if ctx.Err() != nil && i+1 < len(r.GetDescriptors()) {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return answer, nil
}

func (e envoy) limit(ctx context.Context, r *rls.RateLimitRequest, d *entries.RateLimitDescriptor) (*rls.RateLimitResponse_DescriptorStatus, error) {
	costs := e.current().Ledger.Book()
	parts := make([]book.Entry, len(d.GetEntries()))
	for i, part := range d.GetEntries() {
		parts[i] = book.Entry{Key: part.GetKey(), Value: part.GetValue()}
	}
	open := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
	meant, key := costs.Describes(r.GetDomain(), parts)
	if meant == nil {
		return open, nil
	}
	units := int64(max(r.GetHitsAddend(), 1))
	if d.GetHitsAddend() != nil {
		units = int64(min(d.GetHitsAddend().GetValue(), window.MaxUnits))
	}
	if d.GetIsNegativeHits() {
		return nil, problem.BadInput("is_negative_hits is not supported: units are given back by /v1/settle")
	}
	if d.GetLimit() != nil {
		if due, skipped := e.door.Due("limits in descriptors"); due {
			e.o.Log.Warn("a descriptor names a limit of its own; it is ignored, and that of the price book holds", "domain", r.GetDomain(), "skipped", skipped)
		}
	}
	verdict, err := e.take(ctx, costs, meant, key, units)
	var refused *quota.RefusedError
	var impossible *quota.ImpossibleError
	switch {
	case err == nil:
		return statusOf(costs, meant, &verdict), nil
	case errors.As(err, &refused):
		return statusOf(costs, meant, &refused.Verdict), nil
	case errors.As(err, &impossible):
		return statusOf(costs, meant, &quota.Verdict{Window: impossible.Window, Limit: impossible.Limit, Pool: impossible.Pool}), nil
	}
	if p, is := errors.AsType[*problem.Problem](err); is && p.Code == codeBudget {
		return statusOf(costs, meant, &quota.Verdict{}), nil
	}
	return nil, problem.OfLedger(costs, err)
}

// take takes units. Of 0 it takes none, and answers whether there is one left: so gateways
// check a request whose cost is known only afterwards.
func (e envoy) take(ctx context.Context, costs *book.Book, d *book.Descriptor, key string, units int64) (quota.Verdict, error) {
	by := ctx.Value(callerKey{}).(*access.Token)
	call := callOf(costs, d, key, max(units, 1))
	if units == 0 {
		if err := e.mayCall(by, call); err != nil {
			return quota.Verdict{}, err
		}
		v, err := e.current().Ledger.Check(ctx, *call)
		v.Remaining++ // it was not taken
		return v, err
	}
	granted, err := e.decide(ctx, by, call, 0)
	if err != nil {
		return quota.Verdict{}, err
	}
	return granted.Verdict, nil
}

func callOf(costs *book.Book, d *book.Descriptor, key string, units int64) *quota.Call {
	if d.Family != "" {
		return &quota.Call{Family: d.Family, Key: key, Units: units}
	}
	c := &quota.Call{Upstream: d.Upstream, Account: d.Account, Charges: quota.Units{d.Pool: units}}
	if key != "" && costs.Upstreams[d.Upstream].Pools[d.Pool].By != nil {
		c.Keys = map[string]string{d.Pool: key}
	}
	return c
}

func statusOf(costs *book.Book, d *book.Descriptor, v *quota.Verdict) *rls.RateLimitResponse_DescriptorStatus {
	answer := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OVER_LIMIT, LimitRemaining: clamp(v.Remaining)}
	until := v.RetryAfter
	if v.Allowed {
		answer.Code, until = rls.RateLimitResponse_OK, max(v.ResetAt.Sub(v.At), 0)
	}
	if v.Window == "" { // it was admitted without an answer of the store
		answer.LimitRemaining = 0
		return answer
	}
	if until > 0 {
		answer.DurationUntilReset = durationpb.New(until)
	}
	answer.CurrentLimit = &rls.RateLimitResponse_RateLimit{
		Name: cmp.Or(d.Family, v.Pool.String()), RequestsPerUnit: clamp(v.Limit), Unit: unitOf(costs, d, v.Window),
	}
	return answer
}

// unitOf returns the unit of time of a window, if Envoy has a name for it.
func unitOf(costs *book.Book, d *book.Descriptor, name string) rls.RateLimitResponse_RateLimit_Unit {
	var windows []book.Window
	if f := costs.Families[d.Family]; f != nil {
		windows = f.Windows
	} else if u := costs.Upstreams[d.Upstream]; u != nil && u.Pools[d.Pool] != nil {
		windows = u.Pools[d.Pool].WindowsFor(d.Account)
	}
	for i := range windows {
		if spec := windows[i].Spec; spec.String() == name {
			return cmp.Or(unitsPer[spec.Per], unitsOf[spec.Period])
		}
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}

var (
	unitsPer = map[time.Duration]rls.RateLimitResponse_RateLimit_Unit{
		time.Second: rls.RateLimitResponse_RateLimit_SECOND, time.Minute: rls.RateLimitResponse_RateLimit_MINUTE,
		time.Hour: rls.RateLimitResponse_RateLimit_HOUR, 24 * time.Hour: rls.RateLimitResponse_RateLimit_DAY,
	}
	unitsOf = map[window.Period]rls.RateLimitResponse_RateLimit_Unit{
		window.Minute: rls.RateLimitResponse_RateLimit_MINUTE, window.Hour: rls.RateLimitResponse_RateLimit_HOUR,
		window.Day: rls.RateLimitResponse_RateLimit_DAY, window.Week: rls.RateLimitResponse_RateLimit_WEEK, window.Month: rls.RateLimitResponse_RateLimit_MONTH,
	}
)
