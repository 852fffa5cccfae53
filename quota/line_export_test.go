package quota

// Waiting is how many pools have a line.
func (l *Ledger) Waiting() int {
	l.line.mu.Lock()
	defer l.line.mu.Unlock()
	return len(l.line.queues)
}
