package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/quota/book"
)

const customerService = "a-token-of-the-customer-service-0123456789"

// answered is an answer of a server.
type answered struct {
	status int
	body   string
}

// request sends a request with a token.
func (s *served) request(method, path, body, token string) answered {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url.String()+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answered{res.StatusCode, string(text)}
}

// TestLimits sets limits with the command, over HTTP, and sees that a running server obeys.
func TestLimits(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	f.write("costs.yaml", "extends: builtin\nrevision: 2\nfamilies: {client: {quota: 1, windows: [{per: 1h}], keys: {acme: 2, carol: 3}}, other: {quota: 1, windows: [{per: 1h}]}}\n")
	const operator = "a-token-of-a-person-who-changes-limits-0123456789"
	f.write("anna.token", operator)
	text, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("ingestor.yaml", string(text)+"tokens: {anna: {file: "+f.path("anna.token")+", rights: [limits, operate]}}\n")
	s := f.serve("INGESTOR_TOKEN=" + customerService)
	granted := func(key string) (n int) {
		for n < 20 {
			if status, _ := s.reserve("Bearer "+customerService, `{"family": "client", "key": "`+key+`"}`); status != http.StatusOK {
				return n
			}
			n++
		}
		return n
	}
	if got := granted("acme"); got != 2 {
		t.Errorf("the price book grants %d, want 2", got)
	}
	if r := f.run("limits", "set", "client", "acme", "6", "--reason", "a larger plan"); r.code != console.ExitDone || !strings.Contains(r.stdout, "a larger plan") {
		t.Fatalf("set: %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	more := 0
	for until := time.Now().Add(time.Minute); more == 0 && time.Now().Before(until); {
		more += granted("acme")
	}
	if more += granted("acme"); more != 4 {
		t.Errorf("the server grants %d more, want 4", more)
	}
	if r := s.request("PUT", "/v1/limits/client/bob", `{"quota": 5}`, customerService); r.status != http.StatusForbidden || !strings.Contains(r.body, "the right operate") {
		t.Errorf("a program that charges families sets a limit: %+v", r)
	}
	put := s.request("PUT", "/v1/limits/client/bob", `{"quota": 5, "reason": "a trial"}`, operator)
	if put.status != http.StatusOK || granted("bob") != 5 {
		t.Errorf("put: %+v", put)
	}
	if r := f.run("limits", "--output", "json"); !strings.Contains(r.stdout, `"a trial"`) || !strings.Contains(r.stdout, `"anna"`) {
		t.Errorf("listed: %s%s", r.stdout, r.stderr)
	}
	shown := f.run("costs", "show", "client").stdout
	for _, line := range []string{"(any other key) 1 in 1h price book", "acme 6 in 1h set at run time by", "carol 3 in 1h price book", "bob 5 in 1h set at run time by anna"} {
		if !strings.Contains(strings.Join(strings.Fields(shown), " "), line) {
			t.Errorf("costs show lacks %q:\n%s", line, shown)
		}
	}
	whole := f.run("costs", "show").stdout
	for _, line := range []string{"\n# client acme: 6, by ", "\n# client bob: 5, by anna at ", ": a trial\n"} {
		if !strings.Contains(whole, line) {
			t.Errorf("costs show without a family lacks %q:\n%s", line, whole)
		}
	}
	if _, err := book.Parse("costs.yaml", []byte(whole), nil); err != nil {
		t.Errorf("what costs show prints is no price book: %v", err)
	}
	if got := s.request("DELETE", "/v1/limits/client/bob?reason=over", "", operator); got.status != http.StatusOK {
		t.Errorf("delete: %+v", got)
	}
	if got := s.request("GET", "/v1/limits/client/bob", "", customerService); got.status != http.StatusNotFound {
		t.Errorf("get after delete: %+v", got)
	}
	var acme struct{ Quota int64 }
	got := s.request("GET", "/v1/limits/client/acme", "", customerService)
	if err := json.Unmarshal([]byte(got.body), &acme); err != nil || acme.Quota != 6 {
		t.Errorf("get: %+v", got)
	}
	if r := f.run("limits", "rm", "client", "acme"); r.code != console.ExitDone {
		t.Errorf("rm: %d\n%s", r.code, r.stderr)
	}
	if r := f.run("limits", "list"); !strings.Contains(r.stdout, "no limits are set") {
		t.Errorf("after all were removed: %s", r.stdout)
	}
	if r := f.run("limits", "set", "clint", "acme", "6"); r.code != console.ExitUsage || !strings.Contains(r.stderr, "no family") {
		t.Errorf("an unknown family: %d\n%s", r.code, r.stderr)
	}
	if r := f.run("limits", "list", "clint"); r.code != console.ExitUsage || !strings.Contains(r.stderr, `there is no family "clint"`) {
		t.Errorf("the limits of an unknown family: %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := f.run("limits", "set", "client", "acme", "6"); r.code != console.ExitDone {
		t.Errorf("set: %d\n%s", r.code, r.stderr)
	}
	if r := f.run("limits", "list", "other"); !strings.Contains(r.stdout, "no limits of other are set") {
		t.Errorf("the limits of a family without: %s", r.stdout)
	}
	if r := f.run("limits", "list", "other", "--history"); !strings.Contains(r.stdout, "no limits of other were changed") {
		t.Errorf("the changes of a family without: %s", r.stdout)
	}
	s.stop()
	for _, windows := range []string{"other: {quota: 1, windows: [{per: 1h}]}", "client: {windows: [{per: 1h, quota: 3}]}"} {
		f.write("costs.yaml", "extends: builtin\nrevision: 3\nfamilies: {"+windows+"}\n")
		if r := f.run("costs", "show"); r.code != console.ExitDone || strings.Contains(r.stdout, "# client") {
			t.Errorf("costs show has a limit that %q has no place for: %d\n%s%s", windows, r.code, r.stdout, r.stderr)
		}
	}
}

// limitsOfGuide is the file that docs/limits-for-clients.md shows.
const limitsOfGuide = `family,key,quota,until,reason
client,acme,6000,2030-12-01T00:00:00Z,a trial
client,bob,0,,back to the price book
`

// TestLimitsOfAFile sets many limits at once, tries them first, and sees one end.
func TestLimitsOfAFile(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	f.write("costs.yaml", "extends: builtin\nrevision: 2\nfamilies: {client: {quota: 3, windows: [{per: 24h}]}}\n")
	f.write("limits.csv", limitsOfGuide+"client,\"b, c\",7,,\nyoutube,units,9000,,the console says so\n")
	s := f.serve("INGESTOR_TOKEN=" + customerService)
	for range 3 {
		if status, body := s.reserve("Bearer "+customerService, `{"family": "client", "key": "acme"}`); status != http.StatusOK {
			t.Fatalf("reserve: %d %s", status, body)
		}
	}
	s.stop()
	run := func(code int, says string, args ...string) {
		t.Helper()
		r := f.run(append([]string{"limits"}, args...)...)
		if out := strings.Join(strings.Fields(r.stdout+r.stderr), " "); r.code != code || !strings.Contains(out, says) {
			t.Errorf("%q: %d\n%s%s, want %q", args, r.code, r.stdout, r.stderr, says)
		}
	}
	file := f.path("limits.csv")
	run(console.ExitDone, "client acme 24h 3 3 6,000 granted", "set", "--file", file, "--dry-run")
	run(console.ExitDone, "0 of 3 keys would be refused now", "set", "--file", file, "--dry-run")
	run(console.ExitDone, "client acme 24h 3 3 2 refused", "set", "client", "acme", "2", "--dry-run")
	run(console.ExitDone, "no limits are set", "list")
	run(console.ExitDone, "set or removed 3 limits", "set", "--file", file, "--reason", "the plans of December")
	run(console.ExitDone, "client acme 6,000 2030-12-01 00:00", "list")
	run(console.ExitDone, "the plans of December", "list", "client")
	run(console.ExitDone, "client acme 24h 3 6,000 3 refused", "rm", "client", "acme", "--dry-run")
	run(console.ExitDone, "client acme 24h 3 6,000 4 granted", "set", "client", "acme", "4", "--dry-run")

	for text, says := range map[string]string{
		"":                                  "has no limits",
		"family,key\n":                      "limits.csv:1: the column quota is missing",
		"family,key,quota,ends\n":           "limits.csv:1: column 4 has no name, or another one's",
		"family,key,quota\nclient,a,many\n": "limits.csv:2: the quota must be a whole number",
		"family,key,quota\nclient,a,1\n\nclient,b,2\nclient,a,3\n":               "limits.csv:5: the same limit is at " + file + ":2 already",
		"family,key,quota\nclient,new,1\nclint,b,2\n":                            "limits.csv:3: there is no family \"clint\"",
		"family,key,quota,until\nclient,new,1,2020-01-01T00:00:00Z\n":            "limits.csv:2: family client: the limit would end at 2020-01-01T00:00:00Z, which has passed",
		"family,key,quota,until\nclient,new,1,soon\n":                            "limits.csv:2: until: \"soon\" is not a time",
		"sk-live-123,client,5\n":                                                 "limits.csv:1: column 1 has no name",
		"family,key,key,quota\n":                                                 "limits.csv:1: column 3 has no name",
		"family,key,quota\nclient,new,1\nclint,a,0\n":                            "limits.csv:3: there is no family \"clint\"",
		"family,key,quota\nyoutube,units,1\nupstream:youtube,units,2\n":          "limits.csv:3: the same limit is at",
		"family,key,quota,until\nclient,new,1,0001-01-01T00:00:00Z\n":            "is not a time",
		"family,key,quota,until\nclient,new,1,9999-12-31T23:59:59-12:00\n":       "would end after the year 9999",
		`{"family": "client", "key": "new", "quota": 1}`:                         "write one list",
		`[{"family": "client", "key": "new", "quota": 1}] []`:                    "write one list",
		`[{"family": "client", "key": "new"}]`:                                   "limits.csv, limit 1: the quota is missing",
		`[{"family": "client", "key": "new", "quota": 1, "by": "the upstream"}]`: "the upstream has reported it",
		`[{"family": "client", "key": "new", "qouta": 1}]`:                       "unknown field \"qouta\"",
		`[{"family": "client", "key": "new", "quota": -1}]`:                      "limits.csv, limit 1: family client: the limit must be 1 to",
	} {
		f.write("limits.csv", text)
		run(console.ExitUsage, says, "set", "--file", file)
	}
	if r := f.run("limits", "list"); strings.Contains(r.stdout, "new") {
		t.Errorf("a file with an error has set a limit: %s", r.stdout)
	}
	run(console.ExitUsage, "give no others beside it", "set", "client", "acme", "4", "--file", file)
	run(console.ExitUsage, "takes a family, a key and its quota, or --file", "set", "client", "acme")
	run(console.ExitUsage, "is in the past", "set", "client", "acme", "4", "--until", "2020-01-01T00:00:00Z")
	run(console.ExitUsage, "--for is empty", "set", "client", "acme", "4", "--for", "")
	run(console.ExitUsage, "has no limit that was set", "rm", "client", "eve", "--dry-run")
	run(console.ExitUsage, "there is no family", "rm", "youtubes", "units", "--dry-run")
	run(console.ExitUsage, "is not a duration above 0", "set", "client", "acme", "4", "--for", "-2h")
	listed := f.run("limits", "list", "client", "--output", "json").stdout
	run(console.ExitDone, "removed the limit", "rm", "client", "acme")
	f.write("limits.csv", listed)
	run(console.ExitDone, "set or removed 2 limits", "set", "--file", file)
	run(console.ExitDone, "client acme 6,000 2030-12-01 00:00", "list")

	run(console.ExitDone, "client acme 7", "set", "client", "acme", "7", "--for", "1s")
	for until := time.Now().Add(time.Minute); strings.Contains(f.run("limits", "list").stdout, "acme"); { // it ends by itself
		if time.Now().After(until) {
			t.Fatal("a limit for one second holds after a minute")
		}
	}
	run(console.ExitDone, "client acme 24h 3 3 4 granted", "set", "client", "acme", "4", "--dry-run")
	run(console.ExitDone, "client acme 7", "list", "--history")
}

// TestLimitsOfBudgets raises a budget for a week, and that of one user.
func TestLimitsOfBudgets(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	f.write("costs.yaml", "extends: [builtin, builtin/openai-prices]\nrevision: 2\nbudgets:\n  all: {quota: 20 USD, windows: [{per: month}], of: openai}\n"+
		"  user: {quota: 5 USD, windows: [{per: 24h}], of: openai, by: {header: X-User, default: none}}\n")
	f.write("limits.csv", "family,key,quota,until\nbudgets,all,30 USD,2099-01-01T00:00:00Z\nbudgets,user:Ann Lee,7.50 USD,\n")
	run := func(code int, says string, args ...string) {
		t.Helper()
		r := f.run(args...)
		if out := strings.Join(strings.Fields(r.stdout+r.stderr), " "); r.code != code || !strings.Contains(out, says) {
			t.Errorf("%q: %d\n%s%s, want %q", args, r.code, r.stdout, r.stderr, says)
		}
	}
	run(console.ExitDone, "upstream:budgets all 25.00 USD", "limits", "set", "budgets", "all", "25 USD", "--for", "7d", "--reason", "a busy week")
	run(console.ExitDone, "budgets/all, month: somebody has set a limit of 25.00 USD, which holds until", "quota")
	run(console.ExitDone, "upstream:budgets all month UTC 0.00 USD 25.00 USD 30.00 USD granted", "limits", "set", "--file", f.path("limits.csv"), "--dry-run")
	run(console.ExitDone, "set or removed 2 limits", "limits", "set", "--file", f.path("limits.csv"))
	run(console.ExitDone, "upstream:budgets user:Ann Lee 7.50 USD", "limits", "list", "budgets")
	run(console.ExitDone, "# upstream:budgets all: 30.00 USD, by ", "costs", "show")
	run(console.ExitUsage, `the quota "25" is no amount; write it as 12.50 USD`, "limits", "set", "budgets", "all", "25")
	run(console.ExitUsage, "name one, as in user:KEY", "limits", "set", "budgets", "user", "25 USD")
	run(console.ExitUsage, `upstream budgets has no pool "team"; it has `, "limits", "set", "budgets", "team", "25 USD")
	run(console.ExitDone, "the price book's holds again", "limits", "rm", "budgets", "all")
	if r := f.run("quota"); strings.Contains(r.stdout, "somebody has set") {
		t.Errorf("a removed limit is shown: %s", r.stdout)
	}
}
