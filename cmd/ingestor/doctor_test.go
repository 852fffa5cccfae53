package main

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// harm writes over a file from an offset on, and cuts it there if it has no bytes.
func (f *folder) harm(name string, at int64, with []byte) {
	f.t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_WRONLY, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	if len(with) == 0 {
		err = file.Truncate(at)
	} else {
		_, err = file.WriteAt(with, at)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		f.t.Fatal(err)
	}
}

func TestDoctorAndDamage(t *testing.T) {
	t.Parallel()
	const page = 4096
	junk := bytes.Repeat([]byte{0xa5}, 10*page)
	for _, tt := range []struct {
		name       string
		harm       func(*folder)
		says, json string
	}{
		{"pages are junk", func(f *folder) { f.harm("catalog.db", 5*page, junk) }, "is damaged\nTo rebuild its search index: ingestor doctor --repair", `"it cannot be read to its end: `},
		{"the end is missing", func(f *folder) { f.harm("catalog.db", 5*page, nil) }, "it is damaged; restore a backup, or move the file away and fetch again", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFolder(t, 1000, "")
			if r := f.run("run", "--once", "--quiet", "--region", "US"); r.code != console.ExitDone {
				t.Fatal(r)
			}
			tt.harm(f)
			if r := f.run("doctor"); r.code != console.ExitFailed || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("doctor left with %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if r := f.run("doctor", "--output", "json"); !strings.Contains(r.stdout, tt.json) {
				t.Errorf("doctor said\n%s%s", r.stdout, r.stderr)
			}
			if r := f.run("doctor", "--repair"); r.code != console.ExitFailed || !strings.Contains(r.stderr, "a backup") || strings.Contains(r.stderr, "ingestor doctor") {
				t.Errorf("doctor --repair left with %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if r := f.run("check"); r.code != console.ExitFailed || !strings.Contains(r.stdout, "fault    catalog: ") || !strings.Contains(r.stdout, "it is damaged") {
				t.Errorf("check left with %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if r := f.run("run", "--once"); r.code != console.ExitFailed || !strings.Contains(r.stderr, "it is damaged") {
				t.Errorf("run left with %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}

// TestDoctorOfAnOlderCatalog: it finds the damage in the file itself, and leaves its schema. A copy would have none.
func TestDoctorOfAnOlderCatalog(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once", "--quiet", "--region", "US"); r.code != console.ExitDone {
		t.Fatal(r)
	}
	f.age()
	f.harm("catalog.db", 5*4096, bytes.Repeat([]byte{0xa5}, 10*4096))
	before := f.contents()
	if r := f.run("doctor"); r.code != console.ExitFailed || !strings.Contains(r.stderr, "has the older schema 3") || !strings.Contains(r.stderr, "is damaged\n") {
		t.Errorf("doctor left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if diff := cmp.Diff(before, f.contents()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestDoctorMendsTheIndex(t *testing.T) {
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once", "--quiet", "--region", "US"); r.code != console.ExitDone {
		t.Fatal(r)
	}
	db, err := sql.Open("sqlite", f.path("catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "INSERT INTO search (search) VALUES ('delete-all')")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if r := f.run("doctor"); r.code != console.ExitFailed || !strings.Contains(r.stdout, "index of words does not match the videos") {
		t.Errorf("doctor left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := f.run("doctor", "--repair", "--output", "json"); r.code != console.ExitDone || !strings.Contains(r.stdout, `"repaired": true`) {
		t.Errorf("doctor --repair left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := f.run("doctor"); r.code != console.ExitDone || !strings.Contains(r.stdout, "no damage was found") {
		t.Errorf("then doctor left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// A damaged ledger is an outage: it grants nothing, and says what to do. The price book
// admits no calls here.
func TestADamagedLedgerGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*folder){
		"pages are junk":     func(f *folder) { f.harm("ledger.db", 4096, bytes.Repeat([]byte{0xa5}, 40_000)) },
		"the end is missing": func(f *folder) { f.harm("ledger.db", 6000, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, 1000, "")
			f.write("costs.yaml", "extends: builtin\nrevision: 2\nupstreams: {youtube: {methods: {videos.list: {outage: refuse}}}}\n")
			if r := f.run("run", "--once", "--quiet", "--region", "US"); r.code != console.ExitDone {
				t.Fatal(r)
			}
			before := f.sim.Counts().Total().Calls
			harm(f)
			for _, args := range [][]string{{"check"}, {"quota"}, {"run", "--once"}} {
				r := f.run(args...)
				if said := r.stdout + r.stderr; r.code != console.ExitDown || !strings.Contains(said, "it is damaged; stop its users") {
					t.Errorf("%s left with %d\n%s", args[0], r.code, said)
				}
			}
			if after := f.sim.Counts().Total().Calls; after != before {
				t.Errorf("%d calls were made", after-before)
			}
		})
	}
}
