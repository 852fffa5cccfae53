package main

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRefusalsOfCallersAreInTheHistory: a proxy that runs alone saves them in the catalog that
// is there, and so does the server.
func TestRefusalsOfCallersAreInTheHistory(t *testing.T) {
	f := newFolder(t, 20, "")
	f.withToken("upstreams: [youtube], methods: [videos.list]")
	f.run("run", "--once") // makes the catalog, and uses units up
	f.edit("{file: "+f.path("program.token"), "{rights: [reserve], file: "+f.path("program.token"))
	proxy := f.stay("proxy", "--proxy-listen", "127.0.0.1:0")
	if !proxy.stdout.Scan() {
		proxy.waitFor("proxy")
	}
	at := strings.TrimPrefix(proxy.stdout.Text(), "proxy on ") + "/youtube/youtube/v3/videos?part=id&id=abc&key=" + theProxyToken
	for range 5 {
		if said := page(t, at); !strings.Contains(said, "RATE_LIMIT_EXCEEDED") {
			t.Errorf("the proxy says %s", said)
		}
	}
	proxy.end()
	server := f.serve()
	for range 3 {
		if status, said := server.reserve("Bearer "+theProxyToken, `{"method": "videos.list"}`); status != http.StatusTooManyRequests {
			t.Errorf("%d: %s", status, said)
		}
	}
	server.stop()
	again := f.serve()
	defer again.stop()
	history := page(t, again.url.String()+"/history?pool=youtube%2Funits&range=24h")
	var calls int
	for _, mark := range regexp.MustCompile(`calls? (?:was|were) refused: (?:\d+ of runs, )?(\d+) of program`).FindAllStringSubmatch(history, -1) {
		n, err := strconv.Atoi(mark[1])
		if err != nil {
			t.Fatal(err)
		}
		calls += n
	}
	if calls != 2*(5+3) { // in the wide chart and in the narrow one
		t.Errorf("the charts have %d calls of the program:\n%s", calls, history)
	}
}

// end ends a process, and waits until it has saved what it knows.
func (r *resident) end() {
	r.t.Helper()
	_ = r.cmd.Process.Signal(os.Interrupt)
	for range r.log {
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("it left with %v", err)
	}
}
