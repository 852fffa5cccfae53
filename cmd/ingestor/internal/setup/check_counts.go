package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/quota"
)

// checkCounts reads Google's own count of each account, and compares it. It records nothing.
func checkCounts(ctx context.Context, a *session.Session, f *findings, s *settings.Settings, l *quota.Ledger) {
	const what = "google's count"
	c, err := counting.NewCounts(ctx, a, s, l)
	if err != nil {
		f.fault(what, err)
		return
	}
	for _, account := range slices.Sorted(maps.Keys(c.Readers)) {
		all, strange, err := c.Read(ctx, account, a.Now())
		project := c.Readers[account].Project()
		if err != nil {
			f.fault(what, fmt.Errorf("project %s: %w", project, err))
		}
		for _, one := range strange {
			f.warn(what, "project %s: Google counts %s, which no pool of the price book counts\nTo count it, give the pool its metric: %[2]s", project, console.Plain(one.Metric))
		}
		if err == nil {
			f.ok(what, "project %s: it can be read, for %s", project, countedNames(all))
		}
	}
}

// countedNames lists the pools that Google counts.
func countedNames(all []*counting.Counted) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Pool.String()
	}
	return cmp.Or(strings.Join(names, ", "), "no pool")
}
