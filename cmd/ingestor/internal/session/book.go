package session

import (
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// FindMethod finds a method by its name.
func FindMethod(b *quota.Book, name string) (*book.Upstream, *book.Method, error) {
	var like, all []string
	for _, upstream := range slices.Sorted(maps.Keys(b.Upstreams)) {
		u := b.Upstreams[upstream]
		if m := u.Methods[name]; m != nil {
			return u, m, nil
		}
		for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
			all = append(all, m)
			if strings.Contains(strings.ToLower(m), strings.ToLower(strings.TrimSuffix(name, ".list"))) {
				like = append(like, m)
			}
		}
	}
	const few = 12
	switch {
	case len(like) > 0:
		return nil, nil, console.Usage("the price book has no method %q; did you mean %s?", name, strings.Join(like, ", "))
	case len(all) > 0 && len(all) <= few:
		return nil, nil, console.Usage("the price book has no method and no upstream %q; its methods are %s", name, strings.Join(all, ", "))
	}
	return nil, nil, console.Usage("the price book has no method and no upstream %q\nTo list all methods: ingestor costs show", name)
}

// Answers says what the answers of an upstream tell about pools: of all, or of those
// that a method charges.
func Answers(u *book.Upstream, m *book.Method) []string {
	all := []string{}
	for i := range u.Feedback {
		f := &u.Feedback[i]
		if m != nil && f.Pool.From == nil {
			if _, charged := m.Charges[f.Pool.Name]; !charged {
				continue
			}
		}
		all = append(all, f.String())
	}
	return all
}
