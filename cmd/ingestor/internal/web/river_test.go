package web_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
)

// TestRiversPages: a person with the right operate reaches River's program, and nobody else.
func TestRiversPages(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, &web.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	anna, err := access.New("anna", annas, access.Operate)
	r.Must(err)
	program, err := access.New("etl", strings.Repeat("e", 40), access.Rights...)
	r.Must(err)
	tokens := []*access.Token{anna, program}
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: tokens}, r.Ledger.Book()))
	reached := 0
	riverui := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		reached++
		fmt.Fprint(w, req.Method, " ", req.URL, " ", req.Header["Authorization"])
	}))
	at, err := url.Parse(riverui.URL)
	r.Must(err)
	var how net.ListenConfig
	l, err := how.Listen(r.Context(), "tcp", "127.0.0.1:0")
	r.Must(err)
	r.url = "http://" + r.serveWith(l, r.server.ServeRiver(at)).address
	as := func(token string) (headers []string) {
		req := httptest.NewRequest("GET", "/", nil)
		req.SetBasicAuth("whoever", token)
		return []string{"Authorization", req.Header.Get("Authorization")}
	}
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"no token":      {nil, http.StatusUnauthorized},
		"a wrong token": {as("x" + annas), http.StatusUnauthorized},
		"no right":      {as(strings.Repeat("e", 40)), http.StatusForbidden},
		"another site":  {append(as(annas), "Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another page":  {append(as(annas), "Origin", "http://127.0.0.1:1"), http.StatusForbidden},
	} {
		a := r.ask("PUT", "/api/queues/x", "{}", c.headers...)
		asks := strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic ")
		if a.StatusCode != c.status || asks != (c.status == http.StatusUnauthorized) || reached > 0 {
			t.Errorf("%s: %s %v, %d requests reach River", name, a.Status, a.Header, reached)
		}
	}
	a := r.ask("PUT", "/api/queues/x?y=z", "{}", as(annas)...)
	if want := "PUT /api/queues/x?y=z []"; a.StatusCode != http.StatusOK || a.body != want {
		t.Errorf("%s %s, want %s", a.Status, a.body, want)
	}
	if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'self'") || strings.Contains(policy, "'unsafe-eval'") {
		t.Errorf("the pages may load %s", policy)
	}
	riverui.Close()
	if a := r.ask("GET", "/", "", as(annas)...); a.StatusCode != http.StatusBadGateway || strings.Contains(a.body, at.Host) {
		t.Errorf("without River's program: %s %s", a.Status, a.body)
	}
	if text := log.String(); strings.Count(text, "who=anna action=PUT target=/api/queues/x") != 1 || !strings.Contains(text, "start riverui") || strings.Contains(text, annas) {
		t.Errorf("the log says\n%s", text)
	}
}
