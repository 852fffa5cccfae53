package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// agent is a client of ingestor mcp, in a process of its own.
type agent struct {
	t       *testing.T
	cmd     *exec.Cmd
	session *mcp.ClientSession
	mu      sync.Mutex
	heard   bytes.Buffer // all answers
	stderr  bytes.Buffer
}

// toolAnswer has the fields of all tools' answers that the tests read.
type toolAnswer struct {
	Allowed    bool
	Message    string
	ID         string
	Code       string
	RetryAfter float64 `json:"retry_after"`
	Charges    map[string]int64
	Bill       *int64
	Back       int64
	Fits       bool
	Units      map[string]int64
	Pools      []struct{ Pool string }
	Session    struct{ Budget, Spent, Left int64 }
}

// agent connects to a process of the folder.
func (f *folder) agent(args ...string) *agent {
	f.t.Helper()
	a := &agent{t: f.t, cmd: f.program(context.Background(), append([]string{"mcp"}, args...)...)}
	a.cmd.Stderr = &a.stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "tests", Version: "1"}, nil)
	var err error
	a.session, err = client.Connect(context.Background(), &mcp.CommandTransport{Command: a.cmd, TerminateDuration: time.Hour}, nil)
	if err != nil {
		f.t.Fatalf("%v\n%s", err, &a.stderr)
	}
	f.t.Cleanup(func() { _ = a.session.Close() })
	return a
}

// call calls a tool. An error of the tool is returned as its text.
func (a *agent) call(tool string, arguments any) (out toolAnswer, failed string) {
	a.t.Helper()
	r, err := a.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		a.t.Errorf("%s: %v", tool, err)
		return out, ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	a.heard.Write(text)
	a.mu.Unlock()
	if r.IsError {
		return out, r.Content[0].(*mcp.TextContent).Text
	}
	if text, err = json.Marshal(r.StructuredContent); err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		a.t.Errorf("%s answered %s: %v", tool, text, err)
	}
	return out, ""
}

// leave hangs up, and returns the exit code.
func (a *agent) leave() int {
	a.t.Helper()
	if err := a.session.Close(); err != nil {
		a.t.Errorf("hang up: %v\n%s", err, &a.stderr)
	}
	return a.cmd.ProcessState.ExitCode()
}

type object = map[string]any

var aVideo = object{"method": "videos.list"}

// TestMCP is the session of an agent, from its first plan to the end of its budget.
func TestMCP(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 105, "")
	f.env = []string{"YOUTUBE_API_KEY=AIza-secret"}
	a := f.agent("--budget", "5", "--job", "researcher", "--class", "backfill", "--upstream", "youtube")
	if p, failed := a.call("plan", object{"calls": []object{{"method": "videos.list", "count": 3}, {"method": "search.list"}}}); !p.Fits || p.Units["youtube/units"] != 3 || p.Units["youtube/searches"] != 1 {
		t.Errorf("the plan is %+v %s", p, failed)
	}
	if p, _ := a.call("plan", object{"calls": []object{{"method": "videos.list", "count": 6}}}); p.Fits || !strings.Contains(p.Message, "the calls cost 6 units, and the budget of this session has 5 left") {
		t.Errorf("the plan above its budget is %+v", p)
	}
	if p, _ := a.call("plan", object{"calls": []object{{"method": "videos.list", "count": 1000}}}); p.Fits || !strings.Contains(p.Message, "youtube/units") {
		t.Errorf("the plan above the quota is %+v", p)
	}
	first, failed := a.call("reserve", aVideo)
	if !first.Allowed || first.Charges["units"] != 1 || first.Session.Left != 4 {
		t.Fatalf("reserved %+v %s", first, failed)
	}
	if r, _ := a.call("reserve", object{"method": "videos.list", "id": "mine"}); !r.Allowed || r.Session.Left != 3 {
		t.Errorf("reserved %+v", r)
	}
	if r, _ := a.call("reserve", object{"method": "videos.list", "id": "mine"}); !r.Allowed || r.Session.Left != 3 || !strings.Contains(r.Message, "nothing more was charged") {
		t.Errorf("again: %+v", r)
	}
	if s, failed := a.call("settle", object{"id": first.ID, "never_sent": true}); s.Back != 1 || s.Session.Left != 4 {
		t.Errorf("settled %+v %s", s, failed)
	}
	if r, _ := a.call("reserve", object{"method": "videos.list", "id": "unsent"}); !r.Allowed || r.Session.Left != 3 {
		t.Errorf("reserved %+v", r)
	}
	if s, failed := a.call("settle", object{"id": "unsent", "never_sent": true}); s.Back != 1 {
		t.Errorf("settled %+v %s", s, failed)
	}
	if r, _ := a.call("reserve", object{"units": object{"units": 4}}); !r.Allowed || r.Session.Left != 0 {
		t.Errorf("reserved %+v", r)
	}
	if r, _ := a.call("reserve", aVideo); r.Allowed || r.Code != "budget" || !strings.Contains(r.Message, "the budget of this session is 5 units, and 0 of them are left; the call costs 1") {
		t.Errorf("above the budget: %+v", r)
	}
	for name, bad := range map[string]struct {
		tool      string
		arguments object
		want      string
	}{
		"nothing":           {"reserve", object{}, "name a method, or the units by pool"},
		"no such method":    {"reserve", object{"method": "videos.lst"}, "videos.list"},
		"another upstream":  {"reserve", object{"upstream": "github", "method": "core"}, "may not use the upstream"},
		"another class":     {"reserve", object{"method": "videos.list", "class": "manual"}, "class"},
		"of its ids":        {"reserve", object{"method": "videos.list", "id": "#7"}, "begins with #"},
		"its id again":      {"reserve", object{"method": "videos.list", "id": "unsent"}, "was settled before"},
		"its own price":     {"reserve", object{"method": "videos.list", "units": object{"units": 0}}, "the price book has the price of videos.list"},
		"settled before":    {"settle", object{"id": first.ID, "never_sent": true}, "no reservation"},
		"without a cost":    {"settle", object{"id": "mine"}, "say what the call cost, by pool: units"},
		"too many units":    {"reserve", object{"units": object{"units": 1 << 62, "searches": 1 << 62}}, "must be 0 to"},
		"below its price":   {"settle", object{"id": "mine", "units": object{"units": 0}}, "each call costs 1 in units, whatever it returns"},
		"an empty plan":     {"plan", object{"calls": []object{}}, "name 1 to 100 calls"},
		"quotas of another": {"quota", object{"upstream": "github"}, "may not use the upstream"},
	} {
		if _, failed := a.call(bad.tool, bad.arguments); !strings.Contains(failed, bad.want) {
			t.Errorf("%s: %q, want %s", name, failed, bad.want)
		}
	}
	if q, failed := a.call("quota", object{}); len(q.Pools) < 2 || q.Session.Spent != 5 {
		t.Errorf("the quotas are %+v %s", q, failed)
	}
	if code := a.leave(); code != console.ExitDone || !strings.Contains(a.stderr.String(), `"not_settled":2`) {
		t.Errorf("left with %d\n%s", code, &a.stderr)
	}
	if strings.Contains(a.heard.String()+a.stderr.String(), "AIza") || strings.Contains(a.heard.String(), f.dir) {
		t.Errorf("the agent was told %s\n%s", &a.heard, &a.stderr)
	}
	if r := f.run("quota", "spend", "--by", "job", "--by", "class", "--output", "json"); !strings.Contains(r.stdout, `"researcher"`) || !strings.Contains(r.stdout, `"backfill"`) || f.used() != 5 {
		t.Errorf("%d units are spent\n%s", f.used(), r.stdout)
	}
}

// TestMCPInMoney: an agent sees the budget of its job in money, and cannot leave it.
func TestMCPInMoney(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 105, "")
	f.write("costs.yaml", `
revision: 1
budgets: {user: {quota: 9 USD, windows: [{per: day}], of: llm, by: {header: X-User, default: none}, keys: {ann: 3 USD}}}
upstreams:
  llm: {pools: {calls: {quota: 100, windows: [{per: 1m}]}}, methods: {fix: {cost: 1, bill: 0.02 USD}}}
  free: {pools: {calls: {quota: 100, windows: [{per: 1m}]}}, methods: {get: 1}}
`)
	a := f.agent("--budget", "0.05 USD", "--job", "bot")
	if p, failed := a.call("plan", object{"calls": []object{{"upstream": "llm", "method": "fix", "count": 2}}}); !p.Fits || p.Bill == nil || *p.Bill != 40_000 || len(p.Units) != 1 {
		t.Errorf("the plan is %+v %s", p, failed)
	}
	reserve := func() toolAnswer {
		t.Helper()
		r, failed := a.call("reserve", object{"upstream": "llm", "method": "fix"})
		if failed != "" {
			t.Error(failed)
		}
		return r
	}
	first := reserve()
	if second := reserve(); !first.Allowed || first.Bill == nil || *first.Bill != 20_000 || !second.Allowed {
		t.Errorf("reserved %+v, %+v", first, second)
	}
	if third := reserve(); third.Allowed || !strings.Contains(third.Message, "budgets/callers:bot: refused: 0.04 USD of 0.05 USD spent") {
		t.Errorf("above the budget: %+v", third)
	}
	for name, bad := range map[string]struct {
		with object
		want string
	}{
		"another key":   {object{"keys": object{"budgets/callers": "etl"}}, `the key of "budgets/callers" is the job of this session`},
		"its own price": {object{"units": object{"USD": 0}}, "the price book has the price of fix"},
	} {
		bad.with["upstream"], bad.with["method"] = "llm", "fix"
		if r, failed := a.call("reserve", bad.with); r.Allowed || !strings.Contains(failed, bad.want) {
			t.Errorf("%s: %+v %s", name, r, failed)
		}
	}
	if _, failed := a.call("settle", object{"id": first.ID, "units": object{"USD": 1}}); !strings.Contains(failed, "each call costs 20000 in USD") {
		t.Errorf("settled below its price: %s", failed)
	}
	if s, failed := a.call("settle", object{"id": first.ID, "never_sent": true}); s.Bill == nil || *s.Bill != 0 || s.Back != 1 {
		t.Errorf("settled %+v %s", s, failed)
	}
	if q, failed := a.call("quota", object{}); !strings.Contains(fmt.Sprint(q.Pools), "budgets/callers:bot") || strings.Contains(fmt.Sprint(q.Pools), "ann") {
		t.Errorf("the quotas are %+v %s", q.Pools, failed)
	}
	a.leave()
	if !strings.Contains(a.stderr.String(), "job bot: its budget of 0.05 USD does not bound the calls of free") {
		t.Errorf("it says %s", &a.stderr)
	}
}

// TestMCPSessions: two sessions have a budget each, and one ledger. The same id in both is
// charged twice.
func TestMCPSessions(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 15, "") // 5 stay free
	sessions := []*agent{f.agent("--budget", "7"), f.agent("--budget", "7")}
	var all sync.WaitGroup
	for _, a := range sessions {
		all.Go(func() {
			for i := range 9 {
				a.call("reserve", object{"method": "videos.list", "id": "call " + string(rune('a'+i))})
			}
		})
	}
	all.Wait()
	var spent int64
	for _, a := range sessions {
		q, _ := a.call("quota", object{})
		if spent += q.Session.Spent; q.Session.Spent > 7 || q.Session.Spent < 3 {
			t.Errorf("a session has spent %+v", q.Session)
		}
	}
	if r, _ := sessions[0].call("reserve", aVideo); r.Allowed || r.Code != "budget" && (r.Code != "refused" || r.RetryAfter <= 0) {
		t.Errorf("when all is spent: %+v", r)
	}
	for _, a := range sessions {
		if code := a.leave(); code != console.ExitDone {
			t.Errorf("left with %d\n%s", code, &a.stderr)
		}
	}
	if spent != 10 || f.used() != 10 {
		t.Errorf("the sessions have spent %d units, and the ledger has %d", spent, f.used())
	}
}

// TestMCPReservesAnIDOnce: the budget counts an id once, also if it is reserved several times
// at once.
func TestMCPReservesAnIDOnce(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 100, "")
	a := f.agent("--budget", "10", "--wait", "1m")
	if r := f.run("quota", "block", "units", "--for", "1s", "--reason", "a test"); r.code != console.ExitDone {
		t.Fatalf("left with %d\n%s", r.code, r.stderr)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if r, failed := a.call("reserve", object{"method": "videos.list", "id": "mine", "wait": 60}); !r.Allowed || failed != "" {
				t.Errorf("reserved %+v %s", r, failed)
			}
		})
	}
	all.Wait()
	if q, _ := a.call("quota", object{}); q.Session.Spent != 1 || f.used() != 1 {
		t.Errorf("the session has spent %+v, and the ledger has %d", q.Session, f.used())
	}
}

// TestMCPFreesSlots: slots are no units of a plan or of the budget. They come back after their
// ttl, because an agent that pays the price does not say when its call has ended.
func TestMCPFreesSlots(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 100, "")
	f.write("costs.yaml", `extends: builtin
revision: 2
upstreams:
  youtube:
    classes: {backfill: null}
    pools: {slots: {windows: [{in_flight: 1, ttl: 1s}]}}
    methods: {videos.list: {charge: {units: 1, slots: 1}}}
`)
	a := f.agent("--budget", "2", "--wait", "1m")
	if p, failed := a.call("plan", object{"calls": []object{{"method": "videos.list", "count": 2}}}); !p.Fits || len(p.Units) != 1 {
		t.Errorf("the plan is %+v %s", p, failed)
	}
	for left := int64(1); left >= 0; left-- {
		if r, failed := a.call("reserve", object{"method": "videos.list", "wait": 60}); !r.Allowed || r.Session.Left != left {
			t.Errorf("reserved %+v %s", r, failed)
		}
	}
	if code := a.leave(); code != console.ExitDone {
		t.Errorf("left with %d\n%s", code, &a.stderr)
	}
}

// TestMCPSkipsWhatItCannotRead: a line that is no message is answered, and the session goes on.
func TestMCPSkipsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	cmd := newFolder(t, 100, "").program(context.Background(), "mcp", "--budget", "5")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(in, "garbage\n"+`{"jsonrpc":"1.0","method":"ping","id":1}`+"\n\n"+strings.Repeat("x", mcp.DefaultMaxLineLength+10)+"\n"+
			`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n") //nolint:misspell // the protocol spells it so
	}()
	lines := bufio.NewReader(out)
	var codes []int
	var answered bool
	for !answered {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("it ended after %v: %v", codes, err)
		}
		var message struct {
			ID     *int
			Error  struct{ Code int }
			Result json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &message); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if answered = message.ID != nil; !answered {
			codes = append(codes, message.Error.Code)
		} else if *message.ID != 7 || message.Result == nil {
			t.Errorf("it answered %s", line)
		}
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil || !slices.Equal(codes, []int{-32700, -32600, -32700}) {
		t.Errorf("it ended with %v after %v", err, codes)
	}
}

// TestMCPFlags: a session needs a budget, and labels that the price book has.
func TestMCPFlags(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "")
	for want, args := range map[string][]string{
		"--budget is missing":                         {},
		"how much may the session spend?":             {"--budget", "00"},
		"--job: a name has":                           {"--budget", "5", "--job", "A"},
		`--upstream: the price book has no upstream`:  {"--budget", "5", "--upstream", "quux"},
		`--class: none of youtube has the class "qu"`: {"--budget", "5", "--class", "qu"},
	} {
		if r := f.run(append([]string{"mcp"}, args...)...); r.code != console.ExitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: left with %d\n%s", args, r.code, r.stderr)
		}
	}
}

// TestGuideConfiguresAnAgentHost starts the server as docs/mcp.md tells a host to.
func TestGuideConfiguresAnAgentHost(t *testing.T) {
	t.Parallel()
	page := guides(t)["docs/mcp.md"]
	var host struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(fenced(page, "json")[0]), &host); err != nil {
		t.Fatal(err)
	}
	server := host.Servers["headroom"]
	if server.Command != "ingestor" || len(server.Args) == 0 || server.Args[0] != "mcp" {
		t.Fatalf("it starts %+v", server)
	}
	a := newFolder(t, 100, "").agent(server.Args[1:]...)
	tools, err := a.session.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		if !strings.Contains(page, "| `"+tool.Name+"` |") {
			t.Errorf("the page does not have the tool %s", tool.Name)
		}
	}
	if code := a.leave(); code != console.ExitDone || len(tools.Tools) != 4 {
		t.Errorf("left with %d, after %d tools\n%s", code, len(tools.Tools), &a.stderr)
	}
}
