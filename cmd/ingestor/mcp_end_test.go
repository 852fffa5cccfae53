package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
)

// block shuts the pool of videos for an hour, so that a call waits and is not refused at once.
func (f *folder) block() {
	f.t.Helper()
	if r := f.run("quota", "block", "units", "--for", "1h", "--reason", "a test"); r.code != console.ExitDone {
		f.t.Fatalf("left with %d\n%s", r.code, r.stderr)
	}
}

// TestMCPHangsUp: an agent that gives up a call that waits for units, and hangs up, is not
// charged for it. The client of the SDK does not hang up before its calls have ended.
// What it had reserved counts as spent.
func TestMCPHangsUp(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 100, "")
	a := f.agent("--budget", "100", "--wait", "24h")
	if r, failed := a.call("reserve", object{"units": object{"units": 5}}); !r.Allowed {
		t.Fatalf("reserved %+v %s", r, failed)
	}
	f.block()
	if r, _ := a.call("reserve", aVideo); r.Allowed || r.Code != "blocked" {
		t.Errorf("without wait: %+v", r)
	}
	waits := make(chan error, 1)
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	go func() {
		_, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: "reserve", Arguments: object{"method": "videos.list", "wait": 80000}})
		waits <- err
	}()
	a.call("quota", object{}) // meanwhile that call is on its way
	select {
	case err := <-waits:
		t.Fatalf("the call does not wait: %v", err)
	default:
	}
	giveUp()
	if code := a.leave(); code != console.ExitDone || !strings.Contains(a.stderr.String(), `"units":5,"of":100,"not_settled":1`) {
		t.Errorf("left with %d\n%s", code, &a.stderr)
	}
	<-waits
	if f.used() != 5 {
		t.Errorf("%d units are spent", f.used())
	}
}

// TestMCPOfAHostThatIsKilled: if the agent's host is killed, the server ends by itself. A call
// that waits for units takes none, and what was reserved counts as spent.
func TestMCPOfAHostThatIsKilled(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "") // 5 stay free
	server := f.program(context.Background(), "mcp", "--budget", "20", "--wait", "48h")
	host := python(t, "", "", append([]string{"testdata/python/agent.py"}, server.Args...)...)
	host.Env = append(host.Env, server.Env...)
	said, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	logged, err := os.Create(f.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logged.Close()
	host.Stderr = logged
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Server   int
		Reserved toolAnswer
		Wrong    struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	err = json.NewDecoder(said).Decode(&answer)
	_ = host.Process.Kill()
	_ = host.Wait()
	log := func() string {
		text, _ := os.ReadFile(f.path("log"))
		return string(text)
	}
	if err != nil || !answer.Reserved.Allowed || answer.Reserved.Session.Left != 19 {
		t.Fatalf("%+v %v\n%s", answer, err, log())
	}
	if w := answer.Wrong; !w.IsError || len(w.Content) != 1 || !strings.Contains(w.Content[0].Text, "method") {
		t.Errorf("a wrong argument: %+v", w)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(log(), "the session has ended"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(answer.Server, syscall.SIGKILL)
			t.Fatalf("the server goes on\n%s", log())
		}
	}
	if !strings.Contains(log(), `"units":1,"of":20,"not_settled":1`) || f.used() != 1 {
		t.Errorf("%d units are spent\n%s", f.used(), log())
	}
}

// TestMCPInAnOutage: an agent learns that the ledger is down, and not where it is.
func TestMCPInAnOutage(t *testing.T) {
	t.Parallel()
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	f := newFolder(t, 1000, "redis://"+server.Addr+"/0")
	a := f.agent("--budget", "5")
	if r, failed := a.call("reserve", aVideo); !r.Allowed {
		t.Fatalf("reserved %+v %s", r, failed)
	}
	server.Kill()
	r, failed := a.call("reserve", object{"method": "search.list"}) // which is refused in an outage
	if r.Allowed || r.Code != "outage" || r.RetryAfter <= 0 || r.Session.Left != 4 {
		t.Errorf("in an outage: %+v %s", r, failed)
	}
	if strings.Contains(a.heard.String(), server.Addr) {
		t.Errorf("the agent knows the address: %s", &a.heard)
	}
	if code := a.leave(); code != console.ExitDone {
		t.Errorf("left with %d\n%s", code, &a.stderr)
	}
}
