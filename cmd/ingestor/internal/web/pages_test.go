package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
)

// TestPagesAreOfTheServersSources: a page shows the sources that the server was last given.
func TestPagesAreOfTheServersSources(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	reads := func(want string) {
		t.Helper()
		a := r.ask("GET", "/", "")
		if a.StatusCode != http.StatusOK || !strings.Contains(a.Header.Get("Content-Security-Policy"), "script-src 'self'") || !strings.Contains(a.body, want) {
			t.Errorf("%s, %v: there is no %q", a.Status, a.Header, want)
		}
	}
	reads("<strong>4</strong> of 9,500")
	other := newRig(t, nil)
	r.Must(r.server.Update(web.Sources{Sources: other.Sources()}, other.Ledger.Book()))
	reads("<strong>0</strong> of 9,500")
}

func TestFilesOfPagesHaveAPolicy(t *testing.T) {
	r := newRig(t, nil)
	for _, name := range []string{"dashboard.css", "dashboard.js", "icon.svg"} {
		a := r.ask("GET", "/static/"+name, "")
		policy := a.Header.Get("Content-Security-Policy")
		if a.StatusCode != http.StatusOK || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s, its policy is %q", name, a.Status, policy)
		}
	}
}

// TestErrorsForPeople: who asks with a browser for what is not there, or too often, is
// told in a page; programs are told as before.
func TestErrorsForPeople(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	r := newLimitedRig(t, nil, "families: {client: {quota: 3, windows: [{per: 1m, algorithm: counter}]}}")
	reads := func(method, path string, status int, want string) {
		t.Helper()
		a := r.ask(method, path, "", "Accept", browser)
		if a.StatusCode != status || a.Header.Get("Content-Type") != "text/html; charset=utf-8" || a.Header.Get("Vary") != "Accept" ||
			!strings.Contains(a.Header.Get("Content-Security-Policy"), "style-src 'self'") || !strings.Contains(a.body, want) {
			t.Errorf("%s %s: %s, %v\n%s", method, path, a.Status, a.Header, a.body)
		}
	}
	reads("GET", "/nothing", 404, "There is no such page")
	reads("POST", "/", 405, "Method Not Allowed")
	r.problem(404, "GET", "/api/v1/nothing", "", "Accept", browser)
	reads("GET", "/", 429, "Too Many Requests")
	if a := r.ask("GET", "/", "", "Accept", browser); a.Header.Get("Retry-After") == "" {
		t.Error("nobody is told when to come again")
	}
	r.problem(429, "GET", "/", "")
	r.problem(429, "GET", "/api/v1/quota", "", "Accept", browser)
}
