package quota

import "testing"

func TestIDsAreNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for _, i := range []*ids{newIDs(), newIDs()} {
		for range 1000 {
			id := i.next()
			if seen[id] || !validID(id) {
				t.Fatalf("id %q after %d others", id, len(seen))
			}
			seen[id] = true
		}
	}
}
