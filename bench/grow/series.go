package main

import (
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A series is a kind of pool with one window.
type series struct {
	name   string
	spec   window.Spec
	client bool // a member of a family, which has neither receipts nor spend
}

// The pools have a sliding window. The last series are clients: members of a family, with
// the estimate from two counters.
var allSeries = []series{
	{name: "1 min", spec: window.Spec{Per: time.Minute}},
	{name: "24 h", spec: window.Spec{Per: 24 * time.Hour}},
	{name: "30 days", spec: window.Spec{Per: 30 * 24 * time.Hour}},
	{name: "clients", spec: window.Spec{Per: time.Hour, Algorithm: window.Estimate}, client: true},
}

func seriesNames() (all []string) {
	for _, s := range allSeries {
		all = append(all, s.name)
	}
	return all
}

// An account has so many pools, as the accounts of an upstream do. All its pools are in one
// slot of a Cluster, and in one transaction if one call charges them.
const perAccount = 10

// roomy is a limit that no call comes near.
const roomy = 1<<31 - 1

// labels say who spends.
var labels = quota.Labels{Method: "videos.list", Job: "trending", Region: "DE", Class: "backfill"}

// pools are the pools of a ledger. Their names are made before anything is timed.
type pools struct {
	series
	windows []window.Limit
	names   []quota.Pool
}

func newPools(s series, n int) (*pools, error) {
	spec, err := s.spec.Normal()
	if err != nil {
		return nil, err
	}
	p := &pools{series: s, windows: []window.Limit{window.NewLimit(spec, roomy)}, names: make([]quota.Pool, n)}
	account := ""
	for i := range p.names {
		if i%perAccount == 0 {
			account = fmt.Sprintf("project-%07d", i/perAccount)
		}
		p.names[i] = quota.Pool{Upstream: "api", Account: account, Name: poolNames[i%perAccount]}
		if s.client {
			p.names[i] = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: fmt.Sprintf("%032d", i)}
		}
	}
	return p, nil
}

var poolNames = func() (all [perAccount]string) {
	for i := range all {
		all[i] = fmt.Sprintf("units-%d", i)
	}
	return all
}()

// charge is three units of a pool.
func (p *pools) charge(i int) quota.Charge {
	c := quota.Charge{Pool: p.names[i], Units: 3, Windows: p.windows, Revision: 1}
	if p.client {
		c.MaxKeys = 2 * sizes[len(sizes)-1] // of all sizes: the family has as many partitions
	}
	return c
}

// together returns the charges of the pools that one request may charge, from pool i on.
func (p *pools) together(i int) []quota.Charge {
	if p.client {
		return []quota.Charge{p.charge(i)}
	}
	var all []quota.Charge
	for ; len(all) == 0 || i < len(p.names) && i%perAccount > 0; i++ {
		all = append(all, p.charge(i))
	}
	return all
}
