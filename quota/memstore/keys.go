package memstore

// keys finds the members of a family by their keys. A map never becomes smaller, so
// where few are left of many a new one takes its place: members move when they are
// asked for, and those that nobody asks for are idle before long.
type keys struct {
	now, old map[string]*member
	largest  int // size that now has had
}

// few is how many are never too many for a map to keep.
const few = 1024

func (k *keys) count() int { return len(k.now) + len(k.old) }

func (k *keys) find(key string) *member {
	m := k.now[key]
	if m == nil && k.old != nil {
		if m = k.old[key]; m != nil {
			delete(k.old, key)
			k.put(m)
		}
	}
	return m
}

func (k *keys) put(m *member) {
	if k.now == nil {
		k.now = make(map[string]*member)
	}
	k.now[m.key] = m
	k.largest = max(k.largest, len(k.now))
}

func (k *keys) drop(key string) {
	delete(k.now, key)
	delete(k.old, key)
	if len(k.old) > 0 {
		return
	}
	k.old = nil
	if k.largest > few && len(k.now) < k.largest/8 {
		k.now, k.old, k.largest = nil, k.now, 0
	}
}
