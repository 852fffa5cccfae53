package pagestore

// Waiting is how many callers wait for the transaction under way.
func (s *Store) Waiting() (n int) {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	for _, q := range s.queues.open {
		n += len(q.waiting)
	}
	return n + len(s.queues.one.waiting)
}

// BackendOf is what a store keeps its pages in.
func BackendOf(s *Store) Backend { return s.backend }
