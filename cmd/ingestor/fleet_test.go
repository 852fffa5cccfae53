package main

import (
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/quota"
)

func TestAllowanceOfAFleet(t *testing.T) {
	for name, c := range map[string]struct {
		s    settings.Settings
		want int64
	}{
		"one machine":           {settings.Settings{Ledger: "redis://r:6379", FleetSize: 1}, quota.DefaultAllowance},
		"four machines":         {settings.Settings{Ledger: "redis://r:6379", FleetSize: 4}, quota.DefaultAllowance / 4},
		"too many for a unit":   {settings.Settings{Ledger: "redis://r:6379", FleetSize: quota.DefaultAllowance + 1}, -1},
		"the server of both":    {settings.Settings{Ledger: "postgres://a:secret@DB.example/ledger", Database: "postgresql://b@db.example:5432/catalog", FleetSize: 1}, -1},
		"two servers":           {settings.Settings{Ledger: "postgres://db1/x", Database: "postgres://db2/x", FleetSize: 2}, quota.DefaultAllowance / 2},
		"a socket for both":     {settings.Settings{Ledger: "postgres:///x?host=/run/pg", Database: "postgres:///y?host=/run/pg", FleetSize: 1}, -1},
		"no catalog in it":      {settings.Settings{Ledger: "postgres://db/x", FleetSize: 1}, quota.DefaultAllowance},
		"a catalog, and a file": {settings.Settings{Ledger: "sqlite:ledger.db", Database: "postgres://db/x", FleetSize: 1}, quota.DefaultAllowance},
	} {
		if got := c.s.Allowance(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
