package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Timeouts are how long something may take; zero is the default.
type Timeouts struct {
	Header  time.Duration // until a request's header has come; 5s
	Request time.Duration // until all of it has; 15s
	Answer  time.Duration // until the answer has left, from the header on; 30s
	Idle    time.Duration // from one request of a connection to the next; 1m
	Query   time.Duration // that ledger and catalog may take for an answer; 5s
	Stop    time.Duration // for what is under way when the server is to stop; 10s
}

func (t Timeouts) complete() Timeouts {
	return Timeouts{
		Header:  cmp.Or(t.Header, 5*time.Second),
		Request: cmp.Or(t.Request, 15*time.Second),
		Answer:  cmp.Or(t.Answer, 30*time.Second),
		Idle:    cmp.Or(t.Idle, time.Minute),
		Query:   cmp.Or(t.Query, 5*time.Second),
		Stop:    cmp.Or(t.Stop, 10*time.Second),
	}
}

// Serve answers what comes in at a listener until the context ends; then requests
// under way finish. When abort ends they do not.
func (s *Server) Serve(ctx, abort context.Context, l net.Listener) error {
	clients := connections{most: s.most, idle: map[net.Conn]struct{}{}}
	server := &http.Server{
		ConnState:         clients.changed,
		Handler:           s,
		ReadHeaderTimeout: s.timeouts.Header,
		ReadTimeout:       s.timeouts.Request,
		WriteTimeout:      s.timeouts.Answer,
		IdleTimeout:       s.timeouts.Idle,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // clients that hang up
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(abort, s.timeouts.Stop)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stop serving: %w", errors.Join(err, server.Close()))
	}
	return nil
}
