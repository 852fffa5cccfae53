package main

import "testing"

// TestMembers keeps the benchmark running.
func TestMembers(t *testing.T) {
	if err := run(t.Context(), 50, 4, 1, ""); err != nil {
		t.Fatal(err)
	}
}
