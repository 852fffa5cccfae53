package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota"
)

// TestSetALimitOnAPage: a person sets and removes the limit of a client. The ledger keeps who
// did it. The pages do not show the key, which may be a secret.
func TestSetALimitOnAPage(t *testing.T) {
	r := newActed(t)
	anna, err := access.New("anna", annas, access.Operate)
	r.Must(err)
	use := func(ledger *quota.Ledger) {
		r.Ledger = ledger
		r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{anna}}, r.Ledger.Book()))
	}
	keeps := r.Ledger
	keepsNone, err := quota.New(keeps.Book(), struct{ quota.Store }{r.Store}, &quota.Options{Clock: r.Clock})
	r.Must(err)
	use(keepsNone)
	if page := r.ask("GET", "/", "").body; strings.Contains(page, "/act/limit") {
		t.Error("the page offers limits that this ledger does not keep")
	}
	if a := r.send("limit", r.fill("/act/limit?family=client", "key", "acme", "quota", "5", "reason", "why")); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.body, "keeps no limits that are set at run time") {
		t.Errorf("%s\n%s", a.Status, a.body)
	}
	use(keeps)
	page := r.ask("GET", "/", "").body
	if !strings.Contains(page, `href="/act/limit?family=client">Set a limit of client</a>`) || !strings.Contains(page, `href="/act/unlimit?family=client">Remove a limit of client</a>`) {
		t.Errorf("the page has no link to it:\n%s", page)
	}
	const key = "key-of-acme"
	set := func(action, quota, command string, want int64) {
		t.Helper()
		v := r.fill("/act/"+action+"?family=client", "key", key, "quota", quota, "reason", "a larger plan")
		if a := r.send(action, v); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s\n%s", a.Status, a.body)
		}
		l, err := r.Ledger.Admin().KeyLimit(t.Context(), "client", key)
		if err != nil || l == nil || l.Quota != want || l.By != "anna" || l.Reason != "a larger plan" {
			t.Errorf("the ledger has %+v, %v", l, err)
		}
		all, err := r.Catalog.Actions(t.Context(), 1)
		if err != nil || len(all) != 1 || all[0].Who != "anna" || all[0].Target != "client" || all[0].Detail != command {
			t.Errorf("it is recorded as %+v, %v", all, err)
		}
		if done := r.ask("GET", "/act/done", "").body; !strings.Contains(done, "anna") || strings.Contains(done, key) {
			t.Errorf("the page has\n%s", done)
		}
	}
	set("limit", "6000", "ingestor limits set client KEY 6000 --reason 'a larger plan'", 6000)
	v := r.fill("/act/limit?family=client", "key", key, "quota", "7", "until", "2099-01-01T00:00:00Z", "reason", "why")
	if a := r.send("limit", v); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s\n%s", a.Status, a.body)
	}
	l, err := r.Ledger.Admin().KeyLimit(t.Context(), "client", key)
	if err != nil || l == nil || l.Until.Year() != 2099 {
		t.Errorf("the ledger has %+v, %v", l, err)
	}
	set("unlimit", "", "ingestor limits rm client KEY --reason 'a larger plan'", 0)
	for with, says := range map[string]string{
		"until=soon": "is not a time", "until=2020-01-01T00:00:00Z": "which has passed", "quota=": "The quota must be a whole number, as 6000", "quota=0": "The quota must be above 0", "quota=many": "The quota must be a whole number, as 6000",
		"key=": "the key must be 1 to", "reason=": "Write a reason", "family=none": "There is no family",
	} {
		name, value, _ := strings.Cut(with, "=")
		v := r.fill("/act/limit?family=client", "key", key, "quota", "7", "reason", "why")
		v.Set(name, value)
		if a := r.send("limit", v); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.body, says) {
			t.Errorf("%s: %s\n%s", with, a.Status, a.body)
		}
	}
	if form := r.ask("GET", "/act/limit?family=client", "").body; !strings.Contains(form, `name="quota" type="text" value="" autocomplete="off" required>`) {
		t.Errorf("a browser would send it without a quota:\n%s", form)
	}
	v = r.fill("/act/limit?family=client", "key", key, "quota", "7", "reason", "why")
	v.Set("token", strings.Repeat("e", 40))
	if a := r.send("limit", v); a.StatusCode != http.StatusForbidden {
		t.Errorf("a wrong token: %s", a.Status)
	}
	if l, err := r.Ledger.Admin().KeyLimit(t.Context(), "client", key); err != nil || l.Quota != 0 {
		t.Errorf("a form that was refused has set %+v, %v", l, err)
	}
}

// TestBudgetsOnAPage: a person corrects a budget, and sets its limit, in dollars.
func TestBudgetsOnAPage(t *testing.T) {
	r := acted(t, newLimitedRig(t, nil, `
budgets: {team: {quota: 20 USD, windows: [{per: day}], of: llm}}
upstreams: {llm: {pools: {calls: {quota: 100, windows: [{per: 1m}]}}, methods: {ask: {cost: 1, bill: 0.50 USD}}}}
`))
	const adjust, limit = "/act/adjust?pool=budgets%2Fteam", "/act/limit?family=upstream%3Abudgets&key=team"
	for _, row := range []struct {
		form, name, value, says string
		used, limit             int64 // of the budget after it
	}{
		{adjust, "units", "3.20 USD", "", 3_200_000, 20_000_000},
		{adjust, "units", "-0.20 USD", "", 3_000_000, 20_000_000},
		{adjust, "units", "5", "budgets/team is a budget, and &#34;5&#34; is no amount; write it as 12.50 USD", 3_000_000, 20_000_000},
		{limit, "quota", "25 USD", "", 3_000_000, 25_000_000},
		{limit, "quota", "30", "the quota &#34;30&#34; is no amount; write it as 12.50 USD", 3_000_000, 25_000_000},
	} {
		v := r.fill(row.form, row.name, row.value, "reason", "why")
		a := r.send(strings.TrimPrefix(row.form[:strings.IndexByte(row.form, '?')], "/act/"), v)
		if (row.says == "") != (a.StatusCode == http.StatusSeeOther) || !strings.Contains(strings.ToLower(a.body), strings.ToLower(row.says)) {
			t.Errorf("%s %s: %s\n%s", row.form, row.value, a.Status, a.body)
		}
		r.Clock.Advance(3 * time.Second)
		all, err := r.Ledger.View().Usage(t.Context(), "budgets", "")
		r.Must(err)
		if w := all[0].Allowances[0]; w.Used != row.used || w.Limit != row.limit {
			t.Errorf("after %s %s the budget has %d of %d, want %d of %d", row.form, row.value, w.Used, w.Limit, row.used, row.limit)
		}
	}
	if page := r.ask("GET", "/", "").body; !strings.Contains(page, `href="/act/limit?family=upstream%3Abudgets&amp;key=team">Set a limit</a>`) {
		t.Errorf("the page has no link to it:\n%s", page)
	}
}
