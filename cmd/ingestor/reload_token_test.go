package main

import (
	"net/http"
	"testing"
)

// TestHangupTakesUpTheToken: who has the old one is shut out; a broken one shuts out nobody.
func TestHangupTakesUpTheToken(t *testing.T) {
	r := newFolder(t, 100, "").stay("serve", "--listen", "127.0.0.1:0")
	url := r.serving()
	asks := func(want int) {
		t.Helper()
		if status, body := reserveUnit(url); status != want {
			t.Errorf("%d, want %d: %s", status, want, body)
		}
	}
	asks(http.StatusOK)
	r.write("token", "short")
	r.hangup("not reloaded.*the token has 5 characters")
	asks(http.StatusOK)
	r.write("token", "another-token-of-the-tests-0123456789")
	r.hangup(`"reloaded`)
	asks(http.StatusUnauthorized)
}
