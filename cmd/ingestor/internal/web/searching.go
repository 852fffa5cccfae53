package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
)

// These bound searches, which take longer than other questions to the catalog: half of the
// sessions that read it are left to others. They bound requests for the history, too.
const (
	maxSearches = 2  // at once
	maxWaiting  = 64 // for their turn
)

// queue lets searches run in turn. Clients take turns, so that one who sends many waits for
// others no less than they for it. If the queue is full, the client with the most in it
// gives way.
type queue struct {
	name, of string // in the metrics, and what waits in it

	mu      sync.Mutex
	running int
	waiting int
	clients []netip.Prefix // that wait, the next first
	turns   map[netip.Prefix][]chan bool
}

// take waits for a turn. It reports false if the queue is full.
func (q *queue) take(ctx context.Context, client netip.Prefix) (bool, error) {
	q.mu.Lock()
	if q.running < maxSearches {
		q.running++
		q.mu.Unlock()
		return true, nil
	}
	if q.waiting >= maxWaiting && !q.makeRoom(client) {
		q.mu.Unlock()
		return false, nil
	}
	turn := make(chan bool, 1)
	if q.turns == nil {
		q.turns = map[netip.Prefix][]chan bool{}
	}
	if len(q.turns[client]) == 0 {
		q.clients = append(q.clients, client)
	}
	q.turns[client] = append(q.turns[client], turn)
	q.waiting++
	q.mu.Unlock()
	select {
	case mine := <-turn:
		return mine, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.turns[client], turn)
	if i >= 0 {
		q.drop(client, i)
	}
	q.mu.Unlock()
	if i < 0 && <-turn { // it came at the same time
		q.done()
	}
	return false, ctx.Err()
}

// makeRoom sends away the last of the client that has the most in the queue, unless that
// is this one.
func (q *queue) makeRoom(client netip.Prefix) bool {
	most := slices.MaxFunc(q.clients, func(a, b netip.Prefix) int { return len(q.turns[a]) - len(q.turns[b]) })
	last := len(q.turns[most]) - 1
	if last < len(q.turns[client])+1 {
		return false
	}
	q.turns[most][last] <- false
	q.drop(most, last)
	return true
}

func (q *queue) drop(client netip.Prefix, i int) {
	q.waiting--
	q.turns[client] = slices.Delete(q.turns[client], i, i+1)
	if len(q.turns[client]) == 0 {
		delete(q.turns, client)
		q.clients = slices.DeleteFunc(q.clients, func(c netip.Prefix) bool { return c == client })
	}
}

func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == 0 {
		q.running--
		return
	}
	next := q.clients[0]
	q.turns[next][0] <- true
	q.drop(next, 0)
	if len(q.turns[next]) > 0 { // it stands behind the others
		q.clients = append(q.clients[1:], next)
	}
}

// wait runs something when it is the turn of a request.
func (s *Server) wait(r *http.Request, q *queue, run func() error) error {
	mine, err := q.take(r.Context(), s.client(r))
	if err != nil {
		return err
	}
	if !mine {
		s.o.Metrics.RequestRefused(q.name)
		return problem.Unavailable("too_many_"+q.name, "too many "+q.of+" are waiting; try again in a moment", time.Second)
	}
	defer q.done()
	return run()
}

// searching is the turn of a search, which ends within the time of one.
func (s *Server) searching(r *http.Request, search func(context.Context) error) error {
	return s.wait(r, &s.searches, func() error {
		ctx, cancel := context.WithTimeout(r.Context(), s.o.Timeouts.Search)
		defer cancel()
		err := search(ctx)
		if err != nil && r.Context().Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return problem.Unavailable("search_too_broad", fmt.Sprintf("the search was ended after %s; search for more words, or longer ones", s.o.Timeouts.Search), 0)
		}
		return err
	})
}

// summing is the turn of pages that add up what the ledger has of a month. They have bounds and
// a queue as searches have, so that many leave the ledger to others.
func (s *Server) summing(r *http.Request, page func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Timeouts.Query)
	defer cancel()
	return s.wait(r.WithContext(ctx), &s.histories, func() error { return page(r.Context()) })
}
