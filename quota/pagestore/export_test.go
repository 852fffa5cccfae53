package pagestore

// Waiting is how many callers wait for the transaction under way.
func (s *Store) Waiting() (n int) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	for _, at := range s.lanes.open {
		n += len(at.waiting)
	}
	return n + len(s.queue.waiting)
}

// BackendOf is what a store keeps its pages in.
func BackendOf(s *Store) Backend { return s.backend }
