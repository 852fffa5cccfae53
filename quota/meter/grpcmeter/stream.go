package grpcmeter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Stream is a [grpc.StreamClientInterceptor]. See [Meter.Unary] for its errors.
func (m *Meter) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s := &stream{desc: desc, opened: make(chan error, 1), first: make(chan error, 1), next: make(chan any), taken: make(chan struct{}), last: make(chan error, 1), done: make(chan struct{})}
	go func() { // until the stream ends
		defer close(s.done)
		resp, err := m.roundTrip(ctx, cc, method, nil, func(r *http.Request) (*http.Response, error) {
			return s.send(r, cc, method, streamer, opts)
		})
		if err != nil {
			s.failed = coded(err)
			s.opened <- s.failed
			return
		}
		drain(resp)
	}()
	if err := <-s.opened; err != nil {
		return nil, err
	}
	return s, nil
}

// stream is a stream whose answer the transport reads while the caller does.
type stream struct {
	grpc.ClientStream
	desc   *grpc.StreamDesc
	opened chan error // of the call, or nil
	began  bool       // the first message was received
	first  chan error // of the first RecvMsg, or nil

	receiving atomic.Bool
	next      chan any // message
	taken     chan struct{}
	last      chan error // io.EOF, or why the stream ended
	text      bytes.Reader

	done   chan struct{} // closed when the transport has seen all that it wants
	failed error         // before done: why the caller does not get the answer
}

// send opens the stream, and waits for its first message.
func (s *stream) send(r *http.Request, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts []grpc.CallOption) (*http.Response, error) {
	ctx, opts := carry(r, opts)
	var err error
	if s.ClientStream, err = streamer(ctx, s.desc, cc, method, opts...); err != nil {
		s.opened <- err
		return answer(r, err, http.NoBody), nil
	}
	s.opened <- nil
	select {
	case err = <-s.first:
	case <-s.Context().Done(): // gRPC also ends it before it returns the last message
		if !s.receiving.Load() {
			return nil, s.Context().Err()
		}
		err = <-s.first
	}
	head, _ := s.Header()
	if err != nil {
		return answer(r, err, http.NoBody, head, s.Trailer()), nil
	}
	resp := answer(r, nil, lines{s}, head)
	resp.Header.Set("Content-Type", "application/x-ndjson")
	return resp, nil
}

func (s *stream) RecvMsg(m any) error {
	s.receiving.Store(true)
	defer s.receiving.Store(false)
	err := s.ClientStream.RecvMsg(m)
	if !s.began {
		s.began = true
		if first := err; errors.Is(first, io.EOF) {
			s.first <- nil
		} else {
			s.first <- first
		}
	}
	if err == nil {
		select {
		case s.next <- m:
			<-s.taken
		case <-s.done:
		}
		if s.desc.ServerStreams {
			return nil
		}
	}
	select {
	case s.last <- cmp.Or(err, io.EOF):
	default: // there was one
	}
	if <-s.done; s.failed != nil {
		return s.failed
	}
	return err
}

// lines are the messages of a stream as lines of JSON.
type lines struct{ *stream }

func (l lines) Read(p []byte) (int, error) {
	for over := l.Context().Done(); l.text.Len() == 0; {
		select {
		case m := <-l.next:
			l.text.Reset(append(jsonOf(m), '\n'))
			l.taken <- struct{}{}
		case err := <-l.last:
			return 0, err
		case <-over:
			if !l.receiving.Load() {
				return 0, l.Context().Err()
			}
			over = nil
		}
	}
	return l.text.Read(p)
}

func (l lines) Close() error { return nil }
