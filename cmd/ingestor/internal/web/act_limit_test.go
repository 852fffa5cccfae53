package web_test

import (
	"net/http"
	"strings"
	"testing"

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
		"until=soon": "is not a time", "until=2020-01-01T00:00:00Z": "which has passed", "quota=": "The quota must be a whole number above 0", "quota=0": "The quota must be a whole number above 0", "quota=many": "The quota must be a whole number above 0",
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
