package meter

import "github.com/headroom-quota/headroom/quota"

// pool names a pool of the call, or the page of its key.
func (c *call) pool(name string) quota.Pool {
	p := quota.Pool{Upstream: c.upstream.Name, Account: c.account, Name: name, Key: c.keys[name]}
	if pool := c.upstream.Pools[name]; p.Key == "" && pool != nil && pool.By != nil {
		p.Key = pool.By.DefaultText
	}
	return p
}
