package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/signals"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "ingestor" {
		signals.Release() // Ctrl-C ends the tests
		childtest.AtOnce(4)
	}
	testscript.Main(m, map[string]func(){
		"ingestor": main,
	})
}

// TestScript runs the command as people do: each file is a session in an empty
// folder and with an empty environment. UPSTREAM is the address of a simulator.
//
// The scripts have these commands beside those of testscript:
//
//	exits CODE ingestor ...  it leaves with that exit code
//	upstream QUOTA           from now on UPSTREAM has so many units a day, and run uses it
//	called N                 that upstream has been charged for so many calls
//	refused N                and has refused so many
//	database                 DATABASE is the URL of an empty database
//	[mounts]                 a user may mount file systems in a namespace
//	bouncer                  so it is, behind PgBouncer in transaction mode; only [pgbouncer]
//	sql STATEMENT            changes it; sql -f FILE reads the statements from a file
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TZ", "UTC")
			upstream := httptest.NewServer(youtubesim.New(&youtubesim.Options{Seed: 1}))
			env.Defer(upstream.Close)
			env.Setenv("UPSTREAM", upstream.URL)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "upstream": upstream, "called": called, "refused": refused,
			"database": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("DATABASE", pgtest.Shared(t)) },
			"bouncer": func(ts *testscript.TestScript, _ bool, _ []string) {
				s := pgtest.Start(t, pgtest.Fast...)
				ts.Setenv("DATABASE", strings.Replace(s.Database(t), s.Addr, s.Bouncer(t), 1))
			},
			"sql": statement,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "pgbouncer":
				return os.Getenv("HEADROOM_SOAK") == "1", nil
			case "mounts":
				return exec.Command("unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp").Run() == nil, nil
			}
			return false, fmt.Errorf("there is no condition %s", name)
		},
		UpdateScripts: os.Getenv("UPDATE") != "",
	})
}

// exits runs a command that must leave with this exit code: exits 64 ingestor what
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command args...")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var left *exec.ExitError
		if !errors.As(err, &left) {
			ts.Fatalf("%v", err)
		}
		code = left.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("it left with %d, not %s", code, args[0])
	}
}

func statement(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.Join(args, " ")
	if file, is := strings.CutPrefix(text, "-f "); is {
		text = ts.ReadFile(file)
	}
	c, err := pgx.Connect(context.Background(), ts.Getenv("DATABASE"))
	ts.Check(err)
	_, err = c.Exec(context.Background(), text)
	ts.Check(errors.Join(err, c.Close(context.Background())))
}

// sims are the upstreams of scripts.
var sims sync.Map // of *testscript.TestScript

func upstream(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: upstream QUOTA")
	}
	units, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	sim := youtubesim.New(&youtubesim.Options{Seed: 1, Quota: youtubesim.Quota{youtubesim.Default: units}})
	server := httptest.NewServer(sim)
	ts.Defer(server.Close)
	sims.Store(ts, sim)
	ts.Setenv("UPSTREAM", server.URL)
	ts.Setenv("INGESTOR_ENDPOINT", server.URL)
	ts.Setenv("YOUTUBE_API_KEY", "a-key-of-the-tests")
}

func called(ts *testscript.TestScript, neg bool, args []string) {
	compare(ts, neg, args, func(c youtubesim.Count) int64 { return c.Calls })
}

func refused(ts *testscript.TestScript, neg bool, args []string) {
	compare(ts, neg, args, func(c youtubesim.Count) int64 { return c.Refused })
}

func compare(ts *testscript.TestScript, neg bool, args []string, of func(youtubesim.Count) int64) {
	sim, there := sims.Load(ts)
	if neg || !there || len(args) != 1 {
		ts.Fatalf("usage, after upstream QUOTA: called N, refused N")
	}
	if got := of(sim.(*youtubesim.Sim).Counts().Total()); fmt.Sprint(got) != args[0] {
		ts.Fatalf("it counted %d, not %s", got, args[0])
	}
}
