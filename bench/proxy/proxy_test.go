package main

import (
	"bytes"
	"testing"
	"time"
)

// TestRun: every figure is measured, with few calls.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	s := sizes{runs: 1, rate: 200, length: 50 * time.Millisecond, streams: 2, few: 20, many: 40, programs: 1, saturated: 100 * time.Millisecond}
	if err := run(t.Context(), &out, s); err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{"open loop", "first byte", "heap", "saturat"} {
		if !bytes.Contains(out.Bytes(), []byte(figure)) {
			t.Errorf("it lacks %s:\n%s", figure, &out)
		}
	}
}
