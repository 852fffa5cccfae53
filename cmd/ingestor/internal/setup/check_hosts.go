package setup

import (
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/quota/book"
)

// likelyTypos warns of hosts that are nearly those of a built-in price book: calls to the
// real host would not be metered.
func (f *findings) likelyTypos(s *settings.Settings) {
	var known []*book.Book
	for _, name := range headroom.ListBuiltin() {
		b, err := headroom.Load(name)
		if err != nil {
			f.fault("price book", console.Config(err))
			return
		}
		known = append(known, b)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Book.Upstreams)) {
		for _, entry := range s.Book.Upstreams[name].Hosts {
			host, _, _ := strings.Cut(entry, "/")
			if like := nearlyListed(known, host); like != "" {
				f.warn("price book", "%s lists the host %s, which is nearly %s\nCalls to a host that is not listed are not metered. If it is a typo, correct hosts of %[1]s", name, host, like)
			}
		}
	}
}

// nearlyListed returns the host of a price book that a host is probably meant to be, or "". A
// host that one of them lists is right.
func nearlyListed(known []*book.Book, host string) (like string) {
	for _, b := range known {
		for _, u := range b.Upstreams {
			if slices.ContainsFunc(u.Hosts, func(entry string) bool { return entry == host || strings.HasPrefix(entry, host+"/") }) {
				return ""
			}
		}
		if like == "" {
			like = b.SuggestHost(strings.TrimPrefix(host, "*."))
		}
	}
	return like
}
