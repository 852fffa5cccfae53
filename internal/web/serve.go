package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// stopping is how long requests under way may take when the server is to stop.
const stopping = 10 * time.Second

// Serve answers what comes in at a listener until the context ends; then requests
// under way finish. When abort ends they do not.
func (s *Server) Serve(ctx, abort context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
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
	grace, cancel := context.WithTimeout(abort, stopping)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stop serving: %w", errors.Join(err, server.Close()))
	}
	return nil
}
