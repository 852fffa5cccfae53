package web_test

import (
	"bytes"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota"
)

// decisions are requests of each route.
var decisions = map[string]string{
	"POST /v1/reserve": `{"method": "item.get"}`,
	"POST /v1/settle":  `{"token": "x", "units": 1}`,
	"POST /v1/release": `{"token": "x"}`,
	"GET /v1/pools":    "",
	"DELETE /v1/pools": "",
	"GET /v1/reserve":  "",
}

// notTheToken are headers of those who have not the right one.
var notTheToken = map[string][]string{
	"absent":         nil,
	"empty":          {"Authorization", ""},
	"wrong":          {"Authorization", "Bearer " + strings.Repeat("x", len(theToken))},
	"short":          {"Authorization", "Bearer x"},
	"cut off":        {"Authorization", "Bearer " + theToken[:len(theToken)-1]},
	"with more":      {"Authorization", "Bearer " + theToken + "x"},
	"long":           {"Authorization", "Bearer " + strings.Repeat(theToken, 300)},
	"twice":          {"Authorization", "Bearer " + theToken, "Authorization", "Bearer x"},
	"another scheme": {"Authorization", "Basic " + theToken},
	"no scheme":      {"Authorization", theToken},
	"another header": {"X-Api-Key", theToken},
}

// A caller without the token learns nothing, not even what is wrong.
func TestWithoutTheToken(t *testing.T) {
	for name, headers := range notTheToken {
		var first answer
		r := newDecider(t, nil)
		for request, body := range decisions {
			method, path, _ := strings.Cut(request, " ")
			a := r.ask(method, path, body, headers...)
			a.Header.Del("Date")
			if first.Response == nil {
				first = a
			}
			if a.StatusCode != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" ||
				a.body != unauthorised || !maps.EqualFunc(a.Header, first.Header, equal) {
				t.Errorf("%s, %s: %s %v %s", name, request, a.Status, a.Header, a.body)
			}
		}
		if used := r.used(); used != 0 {
			t.Errorf("%s: %d units are used", name, used)
		}
	}
}

const unauthorised = `{"title":"Unauthorized","status":401,"detail":"send the token as Authorization: Bearer TOKEN","code":"wrong_token"}` + "\n"

func equal(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") }

func TestSchemesAreTheSameInAnyCase(t *testing.T) {
	r := newDecider(t, nil)
	if a := r.ask("GET", "/v1/pools", "", "Authorization", "bearer "+theToken); a.StatusCode != http.StatusOK {
		t.Errorf("%s", a.Status)
	}
}

func TestOffWithoutAToken(t *testing.T) {
	r := newDecider(t, nil)
	r.token("")
	want := r.ask("POST", "/v1/nothing", "{}").body
	for request, body := range decisions {
		method, path, _ := strings.Cut(request, " ")
		for _, headers := range [][]string{nil, withToken} {
			if a := r.ask(method, path, body, headers...); a.StatusCode != http.StatusNotFound || a.body != want || a.Header.Get("Allow") != "" {
				t.Errorf("%s: %s %v %s", request, a.Status, a.Header, a.body)
			}
		}
	}
	r.token("another-that-is-long-enough")
	r.problem(http.StatusUnauthorized, "GET", "/v1/pools", "", withToken...)
}

// TestGuesses: who has guessed too often is told to wait, but with the right token it is
// let in, because others share its address.
func TestGuesses(t *testing.T) {
	var log bytes.Buffer
	r := newDecider(t, &web.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), AnyHost: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	as := func(client string, status int, token string) problem.Problem {
		t.Helper()
		return r.problem(status, "POST", "/v1/settle", `{"token": "x", "units": 1}`, "X-Forwarded-For", client, "Authorization", "Bearer "+token)
	}
	const guesser, neighbour, other = "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"
	for range 19 {
		as(guesser, http.StatusUnauthorized, "wrong")
	}
	for range 50 { // the right one is never too often
		as(neighbour, http.StatusBadRequest, theToken)
	}
	r.Clock.Advance(10 * time.Second)
	as(neighbour, http.StatusUnauthorized, "wrong")
	for range 3 {
		if p := as(guesser, http.StatusTooManyRequests, "wrong"); p.Code != "too_many_guesses" || p.Verdict != nil {
			t.Errorf("it is told %+v", p)
		}
		as(guesser, http.StatusBadRequest, theToken)
	}
	as(other, http.StatusBadRequest, theToken)
	a := r.ask("GET", "/v1/pools", "", "X-Forwarded-For", guesser, "Authorization", "Bearer wrong")
	if got := a.Header.Get("Retry-After"); got != "51" {
		t.Errorf("Retry-After is %s", got)
	}
	r.Clock.Advance(51 * time.Second)
	as(guesser, http.StatusUnauthorized, "wrong")
	if lines := strings.Count(log.String(), "an address sends wrong tokens"); lines != 1 {
		t.Errorf("%d lines of the log tell of it: %s", lines, &log)
	}
	if a := r.ask("GET", "/metrics", ""); !strings.Contains(a.body, `ingestor_requests_turned_away_total{reason="wrong_token"} 4`) {
		t.Error("the metrics do not tell of it")
	}
}

// TestNamedTokens has several callers, each with a token, a name and rights of its own.
func TestNamedTokens(t *testing.T) {
	r := newDecider(t, nil)
	r.Must(r.Ledger.SetBook(r.Book("families: {visitor: {quota: 5, windows: [{per: 1h}]}}")))
	src := r.Sources()
	var tokens []*access.Token
	secrets := map[string]string{}
	for name, rights := range map[string][]access.Right{"etl": {access.Reserve}, "shop": {access.Limits}, "watch": {access.Read}, "all": access.Rights} {
		secrets[name] = name + strings.Repeat("0123456789", 4)
		token, err := access.New(name, secrets[name], rights...)
		r.Must(err)
		tokens = append(tokens, token)
	}
	r.Must(r.server.Update(web.Sources{Sources: src, Tokens: tokens}, r.Ledger.Book()))
	for route, may := range map[string][]string{
		`POST /v1/reserve {"method": "videos.list", "job": "nightly"}`: {"etl", "all"},
		`POST /v1/reserve {"method": "videos.list"}`:                   {"etl", "all"},
		`POST /v1/reserve {"family": "visitor", "key": "ann"}`:         {"shop", "all"},
		`POST /v1/settle {"token": "x", "units": 1}`:                   {"etl", "all"},
		`POST /v1/release {"token": "x"}`:                              {"etl", "all"},
		`GET /v1/pools `:                                               {"watch", "all"},
	} {
		parts := strings.SplitN(route, " ", 3)
		for name, secret := range secrets {
			a := r.ask(parts[0], parts[1], parts[2], "Authorization", "Bearer "+secret)
			if refused := a.StatusCode == http.StatusForbidden; refused == slices.Contains(may, name) {
				t.Errorf("%s: %s gets %s %s", route, name, a.Status, a.body)
			}
		}
	}
	spent, err := r.Ledger.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByJob)
	r.Must(err)
	var jobs []string
	for _, s := range spent {
		jobs = append(jobs, s.Labels.Job)
	}
	slices.Sort(jobs)
	if want := "all all/nightly etl etl/nightly"; strings.Join(jobs, " ") != want {
		t.Errorf("the spend is that of %v, not of %s", jobs, want)
	}
}

// TestNoTokenIsNoGuess: a page of another site can make a browser on this machine ask, but
// not with a token; it is not to shut out those who share the machine's address.
func TestNoTokenIsNoGuess(t *testing.T) {
	r := newDecider(t, nil)
	for range 50 {
		r.problem(http.StatusUnauthorized, "POST", "/v1/reserve", "{}")
	}
	if a := r.ask("GET", "/v1/pools", "", withToken...); a.StatusCode != http.StatusOK {
		t.Errorf("%s, %s", a.Status, a.body)
	}
}

// TestDecisionsAreNotLimited as readers are: 60 a minute would be few.
func TestDecisionsAreNotLimited(t *testing.T) {
	r := newDecider(t, nil)
	for range 100 {
		if a := r.ask("GET", "/v1/pools", "", withToken...); a.StatusCode != http.StatusOK {
			t.Fatalf("%s %s", a.Status, a.body)
		}
	}
}

func TestTheTokenIsInNoLog(t *testing.T) {
	var log bytes.Buffer
	r := newDecider(t, &web.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r.lose()
	said := ""
	for request, body := range decisions {
		method, path, _ := strings.Cut(request, " ")
		for _, token := range []string{theToken, theToken + "x"} {
			said += r.ask(method, path, body, "Authorization", "Bearer "+token).body
		}
	}
	if !strings.Contains(log.String(), "/v1/reserve") {
		t.Errorf("the outage is not in the log: %s", &log)
	}
	if strings.Contains(log.String()+said, theToken) {
		t.Errorf("the token is told:\n%s%s", &log, said)
	}
}

func TestNewToken(t *testing.T) {
	for _, text := range []string{"", "short", "fifteen-letters", "a token with spaces in it", "a-token-of-two\nlines-of-text", "ein-schlüssel-mit-umlaut"} {
		if _, err := access.New("", text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := access.New("", "sixteen-letters-"); err != nil {
		t.Error(err)
	}
	if _, err := access.New("etl", "sixteen-letters-"); err == nil || !strings.Contains(err.Error(), "at least 32") {
		t.Errorf("a new one that is short: %v", err)
	}
}
