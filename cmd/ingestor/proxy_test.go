package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
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
		if strings.Contains(line, theProxyToken) || strings.Contains(line, "a-key-of-the-tests") {
			t.Errorf("the log says %s", line)
		}
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it left with %v", err)
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
