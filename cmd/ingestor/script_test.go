package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headroom-quota/headroom/internal/youtubesim"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ingestor": main,
	})
}

// TestScript runs the command as people do: each file is a session in an empty
// folder and with an empty environment. UPSTREAM is the address of a simulator.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			upstream := httptest.NewServer(youtubesim.New(&youtubesim.Options{Seed: 1}))
			env.Defer(upstream.Close)
			env.Setenv("UPSTREAM", upstream.URL)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
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
