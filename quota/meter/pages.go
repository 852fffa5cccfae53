package meter

import (
	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// pool names a pool of the call, or the page of its key.
func (c *call) pool(name string) quota.Pool {
	return quota.Pool{Upstream: c.upstream.Name, Account: c.account, Name: name, Key: c.keys[name]}
}

// refusedPool is pool for a pool that a refusal names, and that the call may not charge. It
// returns false for a pool with limits per key if the request does not name the key: to
// shut the default one would be a guess. A key in the body is known only if the call
// charges the pool.
func (c *call) refusedPool(name string) (quota.Pool, bool) {
	p := c.pool(name)
	pool := c.upstream.Pools[name]
	if pool == nil || pool.By == nil || p.Key != "" {
		return p, true
	}
	m := content.Message{Header: c.req.Header, Query: c.req.URL.RawQuery, Path: c.match.Segment, Call: c.name, Caller: book.CallerOf(c.caller.Job)}
	parts := make([]string, len(pool.By))
	for i, by := range pool.By {
		by.DefaultText = ""
		r := content.NewSources(&by).Read(m)
		r.End(false)
		text, ok := r.Text(0)
		if !ok {
			return p, false
		}
		parts[i] = text
	}
	p.Key = pool.Key(parts)
	return p, true
}
