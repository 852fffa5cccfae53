package web

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

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

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
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

// recoverCall turns a panic into an error.
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
		if due, skipped := s.complaints.Due(method); due {
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

// Accept implements [net.Listener].
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

// Close implements [net.Conn].
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
