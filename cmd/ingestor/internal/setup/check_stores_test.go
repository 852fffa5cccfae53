package setup

import (
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// The command that is named can be typed as it stands.
func TestStrayUnitsNameTheCommandThatCountsThem(t *testing.T) {
	var f findings
	f.strays([]quota.EntryCharge{{Pool: quota.Pool{Upstream: "shop", Account: quota.DefaultAccount, Name: "units"}, Units: 3}}, " --ledger redis://h/0")
	for _, want := range []string{
		"calls to shop/units were admitted", "never charged to this one: 3 units", "\nTo count them here, if the upstream's console does not: ingestor quota adjust shop/units 3 --reason TEXT --ledger redis://h/0\n",
		"\nTo drop them: ingestor ledger fresh --reason TEXT --ledger redis://h/0",
	} {
		if len(f.all) != 1 || !strings.Contains(f.all[0].About, want) {
			t.Errorf("there is no %q in %q", want, f.all)
		}
	}
}

func TestCheckClocks(t *testing.T) {
	ledger := func(d time.Duration) clock { return clock{"the ledger", d} }
	database := func(d time.Duration) clock { return clock{"the database", d} }
	for name, c := range map[string]struct {
		servers []clock
		state   string
		about   []string // in this order
	}{
		"none":              {},
		"agree":             {[]clock{ledger(800 * time.Millisecond), database(-300 * time.Millisecond)}, "ok", []string{"the ledger and the database agree within 1s"}},
		"the only server":   {[]clock{ledger(-7 * time.Second)}, "warning", []string{"that of the ledger is 7s behind this machine's", "on that server. If this machine"}},
		"one server":        {[]clock{ledger(0), database(90 * time.Second)}, "warning", []string{"that of the database is 1m30s ahead of this", "\nRun NTP on that server"}},
		"this machine":      {[]clock{ledger(60 * time.Second), database(60300 * time.Millisecond)}, "warning", []string{"the ledger is 1m0s ahead", "the database is 1m0.3s ahead", "\nRun NTP on this machine:"}},
		"nobody can say":    {[]clock{ledger(60 * time.Second), database(-9 * time.Second)}, "warning", []string{"\nRun NTP on this machine and on both servers"}},
		"what a clock says": {[]clock{clockAt("the ledger", time.Unix(14, 0), time.Unix(10, 0), time.Unix(12, 0))}, "warning", []string{"3s ahead"}},
	} {
		t.Run(name, func(t *testing.T) {
			var f findings
			f.checkClocks(c.servers)
			if len(c.servers) == 0 {
				if len(f.all) != 0 {
					t.Errorf("it found %v", f.all)
				}
				return
			}
			if len(f.all) != 1 || f.all[0].What != "clocks" || f.all[0].State != c.state {
				t.Fatalf("it found %v", f.all)
			}
			rest := f.all[0].About
			for _, want := range c.about {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("there is no %q in %q", want, f.all[0].About)
				}
				rest = after
			}
		})
	}
}
