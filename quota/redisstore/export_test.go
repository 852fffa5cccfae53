package redisstore

import "time"

// SetLocal gives this machine another clock than the server's.
func (s *Store) SetLocal(clock func() time.Time) { s.local = clock }
