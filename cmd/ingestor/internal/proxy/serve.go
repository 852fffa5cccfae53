package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	flushTimeout  = 10 * time.Second
)

// Serve serves requests from a listener, with TLS if secure is not nil, until ctx ends. Then
// open requests may finish within Options.Grace, unless abort ends too. Serve cuts off the
// rest, without an error. Until then nothing bounds the time of a request or an answer,
// because streams are long. Calls have the values of ctx, such as its budget and its span.
func (h *Handler) Serve(ctx, abort context.Context, l net.Listener, secure *tls.Config) error {
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10, Protocols: &protocols,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    slog.NewLogLogger(h.log.Handler(), slog.LevelDebug), // programs that hang up
	}
	h.crowd.Attach(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the proxy: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(abort, h.grace)
	defer cancel()
	err := server.Shutdown(grace)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && abort.Err() == nil: // it stops as it was told to
		err = server.Close()
		h.log.Warn("the proxy has stopped and cut off open calls", "after", h.grace.String())
	case err != nil:
		err = fmt.Errorf("stop the proxy: %w", errors.Join(err, server.Close()))
	}
	flush, end := context.WithTimeout(context.WithoutCancel(abort), flushTimeout)
	defer end()
	return errors.Join(err, h.Flush(flush))
}
