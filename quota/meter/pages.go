package meter

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// pageKeys returns the keys of the keyed pools that a call charges, as its request names
// them. A pool without a key is left out: the ledger takes its default, or refuses.
func (c *call) pageKeys(read func(*book.Source) (string, bool)) map[string]string {
	if c.method == nil {
		return nil
	}
	var keys map[string]string
	for name := range c.method.Charges {
		pool := c.upstream.Pools[name]
		if pool == nil || pool.By == nil {
			continue
		}
		if key, found := read(pool.By); found && key != "" {
			if keys == nil {
				keys = make(map[string]string)
			}
			keys[name] = key
		}
	}
	return keys
}

// pool names a pool of the call, or the page of its key.
func (c *call) pool(name string) quota.Pool {
	p := quota.Pool{Upstream: c.upstream.Name, Account: c.account, Name: name, Key: c.keys[name]}
	if pool := c.upstream.Pools[name]; p.Key == "" && pool != nil && pool.By != nil {
		p.Key = pool.By.DefaultText
		if p.Key == "" && pool.By.Default != nil {
			p.Key = strconv.FormatInt(*pool.By.Default, 10)
		}
	}
	return p
}

// keyIn reads a key from the header or the URL of a request.
func keyIn(req *http.Request) func(*book.Source) (string, bool) {
	return func(s *book.Source) (string, bool) {
		text := cmp.Or(s.Header, s.Query)
		switch {
		case text == "" || s.JSON != "":
			return "", false
		case s.Header != "":
			text = req.Header.Get(s.Header)
		default:
			text = req.URL.Query().Get(s.Query)
		}
		if s.Match == nil {
			return text, text != ""
		}
		groups := s.Match.FindStringSubmatch(text)
		if groups == nil {
			return "", false
		}
		return groups[min(1, len(groups)-1)], true
	}
}
