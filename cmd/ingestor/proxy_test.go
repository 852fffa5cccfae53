package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/serve"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
)

// theProxyToken is the token of a program.
const theProxyToken = "TOKEN0of0a0program0that0is0proxied0"

// withToken lets a program call through the proxy.
func (f *folder) withToken(calls string) {
	f.t.Helper()
	text, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.write("program.token", theProxyToken+"\n")
	f.write("ingestor.yaml", string(text)+"\nlog_level: debug\ntokens: {program: {file: "+f.path("program.token")+", calls: {"+calls+"}}}\n")
}

// TestProxyInServe: curl and Python's standard library call through a server that also runs
// the proxy. The server names their calls, and neither the key nor the token appears.
func TestProxyInServe(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 20, "")
	f.withToken("upstreams: [youtube], methods: [videos.list]")
	r := f.stay("serve", "--listen", "127.0.0.1:0", "--proxy-listen", "127.0.0.1:0")
	if !r.stdout.Scan() {
		r.waitFor("proxy")
	}
	proxy := strings.TrimPrefix(r.stdout.Text(), "proxy on ") + "/youtube"
	server := r.serving()

	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("curl is not installed: apt-get install curl")
	}
	var said, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), curl, "-sS", "--fail", "-H", "Headroom-Job: shell", proxy+"/youtube/v3/videos?part=id&id=abc&key="+theProxyToken)
	cmd.Stdout, cmd.Stderr = &said, &problems
	if err := cmd.Run(); err != nil || !strings.Contains(said.String(), "youtube#videoListResponse") {
		t.Errorf("curl: %v\n%s%s", err, &said, &problems)
	}
	program := python(t, "", "", "testdata/python/proxied.py", proxy)
	program.Env = append(program.Env, "API_KEY="+theProxyToken)
	if out, err := program.CombinedOutput(); err != nil || string(out) != "14\n" { // 20, without 5 of headroom and curl's
		t.Errorf("python: %v %s", err, out)
	}
	if c := f.sim.Counts().Total(); c.Calls != 15 || c.Refused != 0 {
		t.Errorf("the upstream counted %+v", c)
	}
	spend := f.run("quota", "spend", "--by", "method,job").stdout
	for _, want := range []string{"program/shell", "videos.list"} {
		if !strings.Contains(spend, want) {
			t.Errorf("the spend lacks %s:\n%s", want, spend)
		}
	}
	for path, want := range map[string]string{"/metrics": `method="videos.list"`, "/": "program/shell"} {
		if page := page(t, server+path); !strings.Contains(page, want) {
			t.Errorf("%s lacks %s:\n%s", path, want, page)
		}
	}

	checkMetrics(t, []byte(page(t, server+"/metrics")))

	f.edit("methods: [videos.list]", "methods: [videos.lst]")
	r.hangup("not reloaded.*videos.lst")
	f.edit("methods: [videos.lst]", "methods: [search.list]")
	r.hangup(`"reloaded`)
	resp, err := http.Get(proxy + "/youtube/v3/videos?part=id&id=abc&key=" + theProxyToken) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("after the right is gone: %s", resp.Status)
	}
	_ = r.cmd.Process.Signal(os.Interrupt)
	for line := range r.log {
		r.heard = append(r.heard, line)
	}
	for _, line := range r.heard {
		if strings.Contains(line, theProxyToken) || strings.Contains(line, "a-key-of-the-tests") {
			t.Errorf("the log says %s", line)
		}
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it left with %v", err)
	}
}

// TestAProxyRecordsForADraft: calls through the program are recorded, and the draft of the
// recording is a book.
func TestAProxyRecordsForADraft(t *testing.T) {
	f := newFolder(t, 20, "")
	f.withToken("upstreams: [youtube], methods: [videos.list]")
	r := f.stay("proxy", "--proxy-listen", "127.0.0.1:0", "--record", f.path("calls.jsonl"))
	if !r.stdout.Scan() {
		r.waitFor("proxy")
	}
	proxy := strings.TrimPrefix(r.stdout.Text(), "proxy on ") + "/youtube"
	for range 3 {
		if answer := page(t, proxy+"/youtube/v3/videos?part=id&id=abc&key="+theProxyToken); !strings.Contains(answer, "youtube#videoListResponse") {
			t.Fatal(answer)
		}
	}
	_ = r.cmd.Process.Signal(os.Interrupt)
	r.waitFor("the recording has ended.*\"calls\":3")
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it left with %v", err)
	}
	draft := f.run("costs", "draft", "--from", "log", f.path("calls.jsonl"), "--out", f.path("draft.yaml"))
	if check := f.run("check", "--costs", f.path("draft.yaml")); draft.code != console.ExitDone || !strings.Contains(check.stdout, "draft.yaml, revision 1") {
		t.Errorf("draft: %s\ncheck: %s%s", draft.stderr, check.stdout, check.stderr)
	}
	text, err := os.ReadFile(f.path("calls.jsonl"))
	if err != nil || bytes.Contains(text, []byte(theProxyToken)) || bytes.Contains(text, []byte("abc")) {
		t.Errorf("the recording has a secret, or cannot be read: %v\n%s", err, text)
	}
}

// TestProxyAlone: without the server, probes and metrics have an address of their own, and
// traces name the calls.
func TestProxyAlone(t *testing.T) {
	f := newFolder(t, 20, "")
	c := newCollector(t)
	f.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url}
	f.withToken("upstreams: [youtube]")
	r := f.stay("proxy", "--proxy-listen", "127.0.0.1:0", "--probe-listen", "127.0.0.1:0")
	var at []string
	for _, what := range []string{"proxy on ", "probes on "} {
		if !r.stdout.Scan() {
			r.waitFor(what)
		}
		at = append(at, strings.TrimPrefix(r.stdout.Text(), what))
	}
	if body := page(t, at[0]+"/youtube/youtube/v3/videos?part=id&id=abc&key="+theProxyToken); !strings.Contains(body, "youtube#videoListResponse") {
		t.Errorf("the call: %s", body)
	}
	for path, want := range map[string]string{
		"/livez": `"live"`, "/readyz": `"ready"`, "/metrics": `headroom_decisions_total{account="default",outcome="granted",upstream="youtube"} 1`,
	} {
		if body := page(t, at[1]+path); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s:\n%s", path, want, body)
		}
	}
	key := "key_file: " + f.path("key")
	f.edit(key, key+"\nkeys: {other: {file: a-key}}")
	f.write("costs.yaml", "extends: builtin\nrevision: 3\nupstreams:\n  other:\n    hosts: [other.test]\n    pools: {a: {quota: 9, windows: [{per: day}]}}\n    methods: {get: {route: GET /a, pool: a, cost: 1}}\n")
	r.hangup("not reloaded.*keys has changed, and the proxy takes its keys when it starts")
	f.edit("\nkeys: {other: {file: a-key}}", "")
	f.edit(key, key+"s")
	r.hangup("not reloaded.*key_file has changed")
	f.edit(key+"s", key)
	r.hangup(`"reloaded`)
	if body := page(t, at[1]+"/metrics"); strings.Contains(body, "ingestor_catalog_up") || !strings.Contains(body, "headroom_ledger_up 1") {
		t.Errorf("the metrics are\n%s", body)
	}
	_ = r.cmd.Process.Signal(os.Interrupt)
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it left with %v", err)
	}
	want := "videos.list pool=youtube/units units=1 response.status_code=200\n"
	if got := c.tree("headroom.pool", "headroom.units", "http.response.status_code"); got != want {
		t.Errorf("the traces are\n%swant\n%s", got, want)
	}
	if strings.Contains(c.heard.String(), theProxyToken) || strings.Contains(c.heard.String(), "id=abc") {
		t.Error("the traces have the token or the query")
	}
}

// TestProxyGrace: the setting says how long streams may finish.
func TestProxyGrace(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer upstream.Close()
	f := newFolder(t, 20, "")
	f.withToken("upstreams: [youtube]")
	text, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("ingestor.yaml", string(text)+"proxy_grace: 100ms\n")
	if r := f.run("proxy"); r.code != console.ExitConfig || !strings.Contains(r.stderr, "proxy_grace: it must be from 1s to 1h") {
		t.Errorf("left with %d\n%s", r.code, r.stderr)
	}
	f.edit("proxy_grace: 100ms", "proxy_grace: 1s")
	f.env = []string{"INGESTOR_ENDPOINT=" + upstream.URL}
	r := f.stay("proxy", "--proxy-listen", "127.0.0.1:0")
	if !r.stdout.Scan() {
		r.waitFor("proxy")
	}
	resp, err := http.Get(strings.TrimPrefix(r.stdout.Text(), "proxy on ") + "/youtube/youtube/v3/videos?part=id&id=abc&key=" + theProxyToken) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_ = r.cmd.Process.Signal(os.Interrupt)
	r.waitFor(`cut off open calls.*"after":"1s"`)
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it left with %v", err)
	}
}

// TestUploadOutlivesTheProxy: a proxy that is killed between two chunks of an upload, and
// started again, passes on the next chunk, which costs nothing.
func TestUploadOutlivesTheProxy(t *testing.T) {
	var chunks atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Range") != "" {
			chunks.Add(1)
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("Location", "http://"+r.Host+"/upload/items?uploadType=resumable&upload_id=7")
	}))
	defer upstream.Close()
	f := newFolder(t, 20, "")
	f.write("costs.yaml", `
revision: 1
upstreams:
  files:
    hosts: ["`+strings.TrimPrefix(upstream.URL, "http://")+`"]
    api_key: {header: X-Api-Key}
    resumable: upload_id
    pools: {units: {quota: 100, windows: [{per: day}]}}
    methods: {insert: {route: [POST /upload/items, PUT /upload/items], pool: units, cost: 10}}
`)
	f.write("program.token", theProxyToken+"\n")
	f.write("ingestor.yaml", `
ledger: sqlite:`+f.path("ledger.db")+`
costs: `+f.path("costs.yaml")+`
keys: {files: {file: `+f.path("key")+`}}
tokens: {program: {file: `+f.path("program.token")+`, calls: {upstreams: [files]}}}
`)
	start := func() (*resident, string) {
		r := f.stay("proxy", "--proxy-listen", "127.0.0.1:0")
		if !r.stdout.Scan() {
			r.waitFor("proxy")
		}
		return r, strings.TrimPrefix(r.stdout.Text(), "proxy on ")
	}
	send := func(verb, address, part string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), verb, address, strings.NewReader("0123456789"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", theProxyToken)
		if part != "" {
			req.Header.Set("Content-Range", part)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	r, at := start()
	begun := send(http.MethodPost, at+"/files/upload/items?uploadType=resumable", "") //nolint:bodyclose // it is read and closed
	address, is := strings.CutPrefix(begun.Header.Get("Location"), at)
	if !is || send(http.MethodPut, at+address, "bytes 0-9/30").StatusCode != http.StatusPermanentRedirect { //nolint:bodyclose // it is read and closed
		t.Fatalf("%s, at %q", begun.Status, begun.Header.Get("Location"))
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	_, at = start()
	if got := send(http.MethodPut, at+address, "bytes 10-19/30"); got.StatusCode != http.StatusPermanentRedirect || chunks.Load() != 2 { //nolint:bodyclose // it is read and closed
		t.Errorf("after the proxy was killed: %s, and the upstream has %d chunks", got.Status, chunks.Load())
	}
	if got := send(http.MethodPut, at+strings.Replace(address, "upload_id=7", "upload_id=8", 1), "bytes 10-19/30"); got.StatusCode != http.StatusNotFound || chunks.Load() != 2 { //nolint:bodyclose // it is read and closed
		t.Errorf("another upload: %s, and the upstream has %d chunks", got.Status, chunks.Load())
	}
	if r := f.run("quota", "-o", "json"); !strings.Contains(r.stdout, `"used": 10,`) && !strings.Contains(r.stdout, `"used":10,`) {
		t.Errorf("the chunks are charged:\n%s%s", r.stdout, r.stderr)
	}
}

// TestCheckTriesTheProxy: ingestor check says which programs may call, and what keeps the proxy
// from its start.
func TestCheckTriesTheProxy(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 20, "")
	f.withToken("upstreams: [youtube], methods: [videos.list], budget: 7")
	if r := f.run("check"); r.code != console.ExitDone || !strings.Contains(r.stdout, "proxy: the token program may call youtube, methods videos.list, budget 7") {
		t.Errorf("left with %d\n%s", r.code, r.stdout)
	}
	f.edit("methods: [videos.list]", "methods: [videos.lst]")
	if r := f.run("check"); r.code != console.ExitConfig || !strings.Contains(r.stdout, `the token program names the method "videos.lst"`) {
		t.Errorf("left with %d\n%s", r.code, r.stdout)
	}
	f.edit("program.token", "none.token")
	if r := f.run("check"); r.code != console.ExitConfig || !strings.Contains(r.stdout, "To create one: ingestor token new FILE") {
		t.Errorf("left with %d\n%s", r.code, r.stdout)
	}
	f.write("ingestor.yaml", "costs: builtin/github\nledger: sqlite:"+f.path("github.db")+"\ntokens: {octo: {file: program.token, calls: {upstreams: [github]}}}\n")
	for _, args := range [][]string{{"check"}, {"proxy", "--proxy-listen", "127.0.0.1:0"}} {
		if r := f.run(args...); r.code != console.ExitCredential || !strings.Contains(r.stdout+r.stderr, "the token octo may call github, but there is no key for it") {
			t.Errorf("%s left with %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	f.write("ingestor.yaml", "costs: builtin/github\nledger: sqlite:"+f.path("github.db")+"\nkeys: {github: {file: "+f.path("none.key")+"}}\n")
	if r := f.run("check"); r.code != console.ExitCredential && r.code != console.ExitConfig || !strings.Contains(r.stdout, "fault    key: github: open") {
		t.Errorf("left with %d\n%s", r.code, r.stdout)
	}
}

// TestTokensMayUseTheDefaults: check and the proxy warn of tokens that may not use the class or
// the account of calls that name none.
func TestTokensMayUseTheDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ setting, rights, warning string }{
		{"proxy_class: backfill", "", `the token program may not use the class "backfill" of proxy_class, so its calls without a header Headroom-Class are refused; add it to tokens.program.calls`},
		{"proxy_class: backfill", ", classes: [backfill]", ""},
		{"proxy_account: team", "", `the token program may not use the account "team" of proxy_account, so its calls without a header Headroom-Account are refused`},
		{"proxy_account: default", "", ""},
		{"proxy_region: DE", ", accounts: ['*']", ""},
	} {
		f := newFolder(t, 20, "")
		f.withToken("upstreams: [youtube]" + c.rights)
		f.edit("tokens:", c.setting+"\ntokens:")
		r := f.run("check")
		if r.code != console.ExitDone || !strings.Contains(r.stdout, c.warning) || c.warning == "" && strings.Contains(r.stdout, "may not use") {
			t.Errorf("%+v: left with %d\n%s%s", c, r.code, r.stdout, r.stderr)
		}
	}
}

// TestExecFlags: an error names the flag whose value the price book does not have.
func TestExecFlags(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "")
	for want, args := range map[string][]string{
		"--upstream: the price book has no upstream":    {"--upstream", "quux"},
		`--class: none of youtube has the class "qu"`:   {"--class", "qu"},
		`--account: none of youtube has the account "q`: {"--account", "qu"},
		`--budget: 5 USD needs prices in money`:         {"--budget", "5 USD"},
		`--budget: "-1" is neither a number of units`:   {"--budget", "-1"},
	} {
		if r := f.run(append(append([]string{"exec", "--job", "x"}, args...), "--", "true")...); r.code != console.ExitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: left with %d\n%s", args, r.code, r.stderr)
		}
	}
	r := f.run(append([]string{"exec", "--job", "tap", "--budget", "2", "--state", f.path("tap.json"), "--"}, tapCommand(t)...)...)
	if r.code != console.ExitDeferred || !strings.Contains(r.stderr, "job tap: the budget of the job is used up; it can resume at ") {
		t.Errorf("left with %d\n%s", r.code, r.stderr)
	}
}

// TestUploadKey: two processes that start at once have one key. An invalid file is an error.
func TestUploadKey(t *testing.T) {
	s := &settings.Settings{State: filepath.Join(t.TempDir(), "state")}
	keys := make([]string, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := serve.UploadKey(s)
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(key)
		})
	}
	all.Wait()
	if slices.Sort(keys); keys[0] != keys[len(keys)-1] || len(keys[0]) != serve.UploadKeySize {
		t.Errorf("the keys are %q", keys)
	}
	if left, err := os.ReadDir(s.State); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v %v", left, err)
	}
	path := filepath.Join(s.State, "proxy-uploads.key")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := serve.UploadKey(s); err == nil || !strings.Contains(err.Error(), "is not a key of uploads") || strings.Contains(err.Error(), "short") {
		t.Error(err)
	}
}

// page returns what is at an address.
func page(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
