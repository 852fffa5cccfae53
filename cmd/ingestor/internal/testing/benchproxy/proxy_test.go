package main

import (
	"bytes"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if is, err := child(os.Stdin, os.Stdout); is {
		exit(err)
	}
	os.Exit(m.Run())
}

// TestRun: every figure is measured, with few calls.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	s := sizes{
		runs: 1, rate: 200, length: 50 * time.Millisecond, turn: 25 * time.Millisecond, streams: 2, few: 20, many: 40,
		programs: 1, quota: 10, per: 200 * time.Millisecond, windows: 1,
	}
	if err := run(t.Context(), &out, s, ""); err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{"added to direct", "first byte", "with --record", "ledger in a file", "ledger in memory", "waiting in the proxy", "waiting for Retry-After"} {
		if !bytes.Contains(out.Bytes(), []byte(figure)) {
			t.Errorf("it lacks %s:\n%s", figure, &out)
		}
	}
}
