package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota"
)

const annas = "anna-anna-anna-anna-anna-anna-anna"

// newActed returns a server on whose pages anna may act, and a program may reserve.
func newActed(t *testing.T) *rig { return newActedBy(t, nil) }

func newActedBy(t *testing.T, o *web.Options) *rig {
	t.Helper()
	return acted(t, newRig(t, o))
}

// acted lets anna act on the pages of a server.
func acted(t *testing.T, r *rig) *rig {
	t.Helper()
	anna, err := access.New("anna", annas, access.Operate)
	r.Must(err)
	program, err := access.New("etl", strings.Repeat("e", 40), access.Rights...)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{anna, program}}, r.Ledger.Book()))
	return r
}

var formID = regexp.MustCompile(`name="form" value="([^"]+)"`)

// fill fills in the form of an action and confirms it; with are further values.
func (r *rig) fill(path string, with ...string) url.Values {
	r.Helper()
	a := r.ask("GET", path, "")
	id := formID.FindStringSubmatch(a.body)
	if a.StatusCode != http.StatusOK || id == nil {
		r.Fatalf("%s: %s\n%s", path, a.Status, a.body)
	}
	at, err := url.Parse(path)
	r.Must(err)
	v := at.Query()
	for i := 0; i < len(with); i += 2 {
		v.Set(with[i], with[i+1])
	}
	v.Set("form", id[1])
	v.Set("confirm", "yes")
	v.Set("token", annas)
	return v
}

// send sends a form.
func (r *rig) send(name string, v url.Values) answer {
	r.Helper()
	return r.ask("POST", "/act/"+name, v.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html", "Sec-Fetch-Site", "same-origin")
}

const units = "?pool=youtube%2Funits"

// TestActions: each action takes effect, and is recorded with who did it.
func TestActions(t *testing.T) {
	r := newActed(t)
	r.Run("trending")
	state := func() quota.Usage {
		all, err := r.Ledger.View().Usage(t.Context(), "youtube", "")
		r.Must(err)
		for _, u := range all {
			if u.Pool.Name == "units" {
				return u
			}
		}
		t.Fatal("there is no pool youtube/units")
		return quota.Usage{}
	}
	did := func(name string, v url.Values, command string) {
		t.Helper()
		if a := r.send(name, v); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/act/done" {
			t.Errorf("%s: %s\n%s", name, a.Status, a.body)
		}
		all, err := r.Catalog.Actions(t.Context(), 1)
		if err != nil || len(all) != 1 || all[0].Who != "anna" || all[0].What != name || all[0].Detail != command {
			t.Errorf("%s is recorded as %+v, %v", name, all, err)
		}
		if a := r.ask("GET", "/act/done", ""); !strings.Contains(a.body, "anna") || !strings.Contains(a.body, command) && !strings.Contains(command, "'") {
			t.Errorf("%s is not shown:\n%s", command, a.body)
		}
	}
	did("adjust", r.fill("/act/adjust"+units, "units", "250", "reason", "tried things out"), "ingestor quota adjust youtube/units 250 --reason 'tried things out'")
	if u := state(); u.Allowances[0].Used != 254 {
		t.Errorf("%d are used", u.Allowances[0].Used)
	}
	did("block", r.fill("/act/block"+units, "for", "2h", "reason", "maintenance"), "ingestor quota block youtube/units --for 2h --reason maintenance")
	if u := state(); !u.Blocked.Equal(noon.Add(2*3600e9)) || u.Reason != "maintenance (by anna)" || u.BlockedBy != quota.BlockedByPerson {
		t.Errorf("it is blocked until %s: %s", u.Blocked, u.Reason)
	}
	page := r.ask("GET", "/", "").body
	for _, want := range []string{"youtube/units is blocked by anna: maintenance", "/act/unblock" + units, "/act/adjust" + units, "<bdi>anna</bdi>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	did("unblock", r.fill("/act/unblock"+units), "ingestor quota unblock youtube/units")
	if u := state(); u.Blocked.After(u.Now) {
		t.Error("it is blocked")
	}
	cursor, err := r.Catalog.Cursor(t.Context(), "trending", "DE")
	r.Must(err)
	did("reset", r.fill("/act/reset?job=trending&work=DE"), "ingestor state reset trending DE")
	if after, err := r.Catalog.Cursor(t.Context(), "trending", "DE"); err != nil || cursor.CompletedAt.IsZero() || !after.CompletedAt.IsZero() {
		t.Errorf("it goes on: %+v, %v", after, err)
	}
	if other, err := r.Catalog.Cursor(t.Context(), "trending", "US"); err != nil || other.CompletedAt.IsZero() {
		t.Errorf("other work begins again: %+v, %v", other, err)
	}
}

// TestActionsAreRefused: nothing happens without the token of a person, a confirmation and a
// page of this server.
func TestActionsAreRefused(t *testing.T) {
	r := newActed(t)
	for name, c := range map[string]struct {
		with, headers []string
		status        int
		says          string
	}{
		"a wrong token":              {with: []string{"token", "nonsense"}, status: 403, says: "The token is wrong"},
		"no token":                   {with: []string{"token", ""}, status: 403, says: "The token is wrong"},
		"the token of a program":     {with: []string{"token", strings.Repeat("e", 40)}, status: 403, says: "right operate"},
		"no confirmation":            {with: []string{"confirm", ""}, status: 422, says: "Confirm it first"},
		"no reason":                  {with: []string{"reason", " "}, status: 422, says: "Write a reason"},
		"no units":                   {with: []string{"units", "many"}, status: 422, says: "Units must be a whole number"},
		"an unknown pool":            {with: []string{"pool", "youtube/none"}, status: 422, says: "none"},
		"no form":                    {with: []string{"form", ""}, status: 422, says: "too old"},
		"a made up form":             {with: []string{"form", "zzzzzz-A"}, status: 422, says: "too old"},
		"a page of another site":     {headers: []string{"Sec-Fetch-Site", "cross-site"}, status: 403, says: "another site"},
		"a page of the same domain":  {headers: []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, status: 403, says: "another site"},
		"a page of an older browser": {headers: []string{"Sec-Fetch-Site", "", "Origin", "https://elsewhere.example"}, status: 403, says: "another site"},
	} {
		v := r.fill("/act/adjust"+units, "units", "7", "reason", "why")
		for i := 0; i < len(c.with); i += 2 {
			v.Set(c.with[i], c.with[i+1])
		}
		headers := []string{"Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html"}
		if len(c.headers) == 0 {
			headers = append(headers, "Sec-Fetch-Site", "same-origin")
		}
		a := r.ask("POST", "/act/adjust", v.Encode(), append(headers, c.headers...)...)
		if a.StatusCode != c.status || !strings.Contains(a.body, c.says) || strings.Contains(a.body, annas) {
			t.Errorf("%s: %s\n%s", name, a.Status, a.body)
		}
	}
	if all, err := r.Catalog.Actions(t.Context(), 1); err != nil || len(all) > 0 {
		t.Errorf("%+v was done, %v", all, err)
	}
	all, err := r.Ledger.View().Usage(t.Context(), "youtube", "")
	r.Must(err)
	for _, u := range all {
		for _, w := range u.Allowances {
			if w.Used > 0 {
				t.Errorf("%d of %s are used", w.Used, u.Pool)
			}
		}
	}
}

func TestAFormTakesEffectOnce(t *testing.T) {
	r := newActed(t)
	v := r.fill("/act/adjust"+units, "units", "7", "reason", "why")
	if a := r.send("adjust", v); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s\n%s", a.Status, a.body)
	}
	if a := r.send("adjust", v); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.body, "sent before") {
		t.Errorf("it was done again: %s", a.Status)
	}
	late := r.fill("/act/unblock" + units)
	r.Clock.Advance(2 * 3600e9)
	if a := r.send("unblock", late); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("an old form was taken: %s", a.Status)
	}
}

// TestActionsAreOffWithoutAnOperator: tokens of programs have all rights but that one.
func TestActionsAreOffWithoutAnOperator(t *testing.T) {
	r := newRig(t, nil)
	program, err := access.New("", strings.Repeat("e", 40), access.Rights...)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{program}}, r.Ledger.Book()))
	for _, method := range []string{"GET", "POST"} {
		if a := r.ask(method, "/act/block"+units, ""); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", method, a.Status)
		}
	}
	if page := r.ask("GET", "/", ""); strings.Contains(page.body, "/act/") {
		t.Error("the page has actions")
	}
	if _, err := access.New("", strings.Repeat("x", 40), access.Operate); err == nil {
		t.Error("a token without a name may act")
	}
}
