package open_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/open"
)

func TestParse(t *testing.T) {
	for address, want := range map[string]struct {
		rest  string
		fresh bool
	}{
		"memory:":                                 {"memory:", false},
		"memory:?fresh":                           {"memory:", true},
		"sqlite:/a/ledger.db":                     {"sqlite:/a/ledger.db", false},
		"sqlite:/a/ledger.db?fresh":               {"sqlite:/a/ledger.db", true},
		"sqlite:/a/who?.db":                       {"sqlite:/a/who?.db", false},
		"redis://h/0?fresh=1":                     {"redis://h/0", true},
		"redis://h/0?protocol=2&fresh=1&addr=h:2": {"redis://h/0?protocol=2&addr=h:2", true},
		"redis://h/0?fresh=0":                     {"redis://h/0?fresh=0", false},
		"unix:///run/redis.sock?db=1":             {"unix:///run/redis.sock?db=1", false},
		"postgres://h/db?sslmode=disable&fresh":   {"postgres://h/db?sslmode=disable", true},
		"postgresql://h/db":                       {"postgres://h/db", false},
	} {
		if a, err := open.Parse(address); err != nil || a.String() != want.rest || a.Fresh != want.fresh {
			t.Errorf("%s: %v, %v", address, a, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for address, want := range map[string]string{
		"":                     "not one of",
		"memory":               "not one of",
		"memory:ledger":        "nothing may stand behind memory:",
		"sqlite:":              "name a file",
		"/a/ledger.db":         "write sqlite:/a/ledger.db",
		"mysql://:secret@host": `"mysql:" is not one of`,
		// A misspelt option is not a part of the path: that would be another ledger, with
		// nothing spent.
		"sqlite:/a/ledger.db?fresh=true": "write ?fresh",
		"sqlite:/a/ledger.db?fresh=0":    "write ?fresh",
	} {
		if a, err := open.Parse(address); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", address, a, err)
		}
	}
}

// A command in a hint names the ledger as a shell takes it, and never its password.
func TestFlag(t *testing.T) {
	for address, want := range map[string]string{
		"memory:":                  "",
		"sqlite:/a/ledger.db":      " --ledger sqlite:/a/ledger.db",
		"sqlite:/it's a/ledger.db": ` --ledger 'sqlite:/it'\''s a/ledger.db'`,
		"redis://h:6379/0":         " --ledger redis://h:6379/0",
		"redis://:s3cret@h:6379/0": " --ledger redis://:xxxxx@h:6379/0",
		"redis://h/0?fresh":        " --ledger redis://h/0",
		"postgres://u@h/db?password=s3cret&sslmode=disable": " --ledger 'postgres://u@h/db?password=xxxxx&sslmode=disable'",
	} {
		a, err := open.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Flag(); got != want {
			t.Errorf("%s:%s, want%s", address, got, want)
		}
	}
}
