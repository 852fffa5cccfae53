package agents

import "context"

// alone waits until no other call reserves an id, and then keeps others from it until done is
// called. Otherwise each of them would take its units from the budget, before one of them is
// granted.
func (s *session) alone(ctx context.Context, id string) (done func(), err error) {
	if id == "" {
		return func() {}, nil
	}
	for {
		s.mu.Lock()
		other := s.busy[id]
		if other == nil {
			mine := make(chan struct{})
			s.busy[id] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.busy, id)
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
