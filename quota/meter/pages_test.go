package meter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

const keyedPrices = `
revision: 1
upstreams:
  llm:
    hosts: [api.example.com]
    refusals: [{status: 429, for: 30s}]
    pools:
      tokens: {quota: 10, windows: [{per: 1m}], by: {header: X-Model, match: '^(.*?)-[0-9]+$', default: other}}
      users: {quota: 5, windows: [{per: 1m}], by: {query: user}}
    methods: {ask: {route: GET /ask, charge: {tokens: 4, users: 1}}}
`

// A request names the keys of the pools that its call charges. A refusal shuts these keys.
func TestARequestNamesTheKeys(t *testing.T) {
	status := http.StatusOK
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, nil)
	r.ledger = newLedger(t, keyedPrices, r.clock)
	r.meter(nil)
	ask := func(model, user string) error {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example.com/ask?user="+user, nil)
		if model != "" {
			req.Header.Set("X-Model", model)
		}
		resp, err := r.client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for _, model := range []string{"a-1", "a-2", "b-1", "unnumbered", ""} {
		if err := ask(model, "me"); err != nil {
			t.Fatalf("%q: %v", model, err)
		}
	}
	var refused *quota.RefusedError
	if err := ask("a-3", "you"); !errors.As(err, &refused) || refused.Pool.String() != "llm/tokens:a" {
		t.Errorf("a third call of a: %v, want llm/tokens:a full", err)
	}
	if err := ask("c-1", "me"); !errors.As(err, &refused) || refused.Pool.String() != "llm/users:me" {
		t.Errorf("a sixth call of me: %v, want llm/users:me full", err)
	}
	if err := ask("c-1", ""); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("no user: %v, want bad input, as there is no default", err)
	}
	status = http.StatusTooManyRequests
	if err := ask("d-1", "you"); err != nil {
		t.Fatal(err)
	}
	status = http.StatusOK
	if err := ask("d-2", "they"); !errors.As(err, &refused) || !refused.Blocked || refused.Pool.String() != "llm/tokens:d" {
		t.Errorf("the model that was refused: %v, want it shut", err)
	}
	if err := ask("c-1", "they"); err != nil {
		t.Errorf("another model: %v", err)
	}
}

// modelLimits are those of an LLM: they hold per model, which the body names. The price of
// count is fixed, and its key is in the body, too.
const modelLimits = `
revision: 1
upstreams:
  llm:
    hosts: [api.example.com]
    request_buffer: 1024
    pools:
      requests: {quota: 5, windows: [{per: 1m}], by: {body: model, default: other}}
      tokens: {quota: 1000, windows: [{per: 1m}], by: {body: model, default: other}, keys: {large: 300}}
      projects: {quota: 2, windows: [{per: 1m}], by: {path: project}}
      teams: {quota: 2, windows: [{per: 1m}], by: {header: X-Caller, json: team, match: '^([a-z]+)-', default: 7}}
    methods:
      chat:
        route: POST /chat
        charge:
          requests: 1
          tokens: {estimate: {body: max_tokens, default: 100}, actual: {body: usage}}
      count: {route: POST /count, charge: {requests: 1}}
      project: {route: "GET /projects/{project}/runs", charge: {projects: 1}}
      team: {route: GET /team, charge: {teams: 1}}
`

// spentOf checks what is used of the pages of pools.
func (r *rig) spentOf(want map[string]int64) {
	r.t.Helper()
	r.flush()
	for name, units := range want {
		pool, err := quota.ParsePool(name)
		if err != nil {
			r.t.Fatal(err)
		}
		all, err := r.ledger.View().Usage(context.Background(), pool.Upstream, pool.Account)
		if err != nil {
			r.t.Fatal(err)
		}
		got := int64(-1)
		for _, u := range all {
			if u.Pool == pool {
				got = u.Windows[0].Used
			}
		}
		if got != units {
			r.t.Errorf("%d units of %s are used, want %d", got, name, units)
		}
	}
}

// Limits of an LLM hold per model: one reading of the request's body gives the estimate and
// the page that it is charged to.
func TestABodyNamesTheKey(t *testing.T) {
	const chat, count = "http://api.example.com/chat", "http://api.example.com/count"
	start := func(t *testing.T) (*rig, *string) {
		var got string
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			text, _ := io.ReadAll(req.Body)
			got = string(text)
			io.WriteString(w, `{"usage": 7}`)
		}, nil)
		r.ledger = newLedger(t, modelLimits, r.clock)
		r.meter(nil)
		return r, &got
	}
	// stream is a body that cannot be had again.
	stream := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }
	send := func(t *testing.T, r *rig, url string, body io.Reader) error {
		t.Helper()
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, body)
		_, _, err := r.send(req)
		return err
	}
	t.Run("each model has its page", func(t *testing.T) {
		r, _ := start(t)
		for range 5 {
			if err := send(t, r, chat, strings.NewReader(`{"model":"small","max_tokens":900}`)); err != nil {
				t.Fatal(err)
			}
			r.flush()
		}
		if e := refused(t, send(t, r, chat, strings.NewReader(`{"model":"small"}`))); e.Pool.String() != "llm/requests:small" {
			t.Errorf("%v, want that page full", e)
		}
		if err := send(t, r, chat, strings.NewReader(`{"model":"large","max_tokens":900}`)); err != nil { // capped at its own limit
			t.Error(err)
		}
		r.spentOf(map[string]int64{"llm/requests:small": 5, "llm/tokens:small": 35, "llm/requests:large": 1, "llm/tokens:large": 7})
	})
	t.Run("a body that cannot be had again", func(t *testing.T) {
		r, got := start(t)
		const text = `{"model":"small","max_tokens":10}`
		if err := send(t, r, chat, stream(text)); err != nil || *got != text {
			t.Errorf("%v; the server got %q", err, *got)
		}
		r.spentOf(map[string]int64{"llm/tokens:small": 7})
	})
	t.Run("what is missing or unreadable is the default", func(t *testing.T) {
		r, got := start(t)
		for _, body := range []io.Reader{nil, strings.NewReader("{}"), strings.NewReader(`{"model":["small"]}`), strings.NewReader("hello")} {
			if err := send(t, r, chat, body); err != nil {
				t.Error(err)
			}
		}
		if *got != "hello" {
			t.Errorf("the server got %q", *got)
		}
		r.spentOf(map[string]int64{"llm/requests:other": 4, "llm/requests:small": -1})
	})
	t.Run("a fixed price", func(t *testing.T) {
		r, got := start(t)
		const text = `{"model":"small"}`
		for _, body := range []io.Reader{strings.NewReader(text), stream(text)} {
			if err := send(t, r, count, body); err != nil || *got != text {
				t.Errorf("%v; the server got %q", err, *got)
			}
		}
		r.spentOf(map[string]int64{"llm/requests:small": 2, "llm/requests:other": -1})
	})
	t.Run("path, and JSON in a header", func(t *testing.T) {
		r, _ := start(t)
		r.get("http://api.example.com/projects/a%20b/runs")
		for _, caller := range []string{`{"team":"blue-1"}`, `{"team":"blue-2"}`, `{"team":"unnumbered"}`, ``} {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://api.example.com/team", nil)
			req.Header.Set("X-Caller", caller)
			if _, _, err := r.send(req); err != nil {
				t.Error(err)
			}
		}
		r.spentOf(map[string]int64{"llm/projects:a b": 1, "llm/teams:blue": 2, "llm/teams:7": 2})
	})
}

// An answer reports about the page of its own call: the headers of one model never
// touch another's, and those of a call that charges no model touch none.
func TestReportsAreOfTheCallsKey(t *testing.T) {
	const text = `
revision: 1
upstreams:
  llm:
    hosts: [api.example.com]
    feedback: [{pool: tokens, remaining: {header: X-Left}, reset: {header: X-Reset, as: seconds}}]
    pools:
      requests: {quota: 100, windows: [{per: 1h}]}
      tokens: {quota: 100, windows: [{per: 1h}], by: {body: model, default: other}, max_keys: 100}
    methods:
      chat: {route: POST /chat, charge: {tokens: 1, requests: 1}}
      list: {route: GET /models, charge: {requests: 1}}
`
	left := ""
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Left", left)
		w.Header().Set("X-Reset", "600")
	}, nil)
	r.ledger = newLedger(t, text, r.clock)
	r.meter(nil)
	chat := func(body, says string) error {
		left = says
		_, _, err := r.do(t.Context(), "POST", "http://api.example.com/chat", body)
		return err
	}
	if err := errors.Join(chat(`{"model":"small"}`, "1"), chat(`{"model":"large"}`, "60"), chat(`{}`, "70")); err != nil {
		t.Fatal(err)
	}
	left = "0"
	r.get("http://api.example.com/models")
	r.spentOf(map[string]int64{"llm/tokens:small": 99, "llm/tokens:large": 40, "llm/tokens:other": 30, "llm/requests": 4})
	if err := errors.Join(chat(`{"model":"small"}`, "0"), chat(`{"model":"large"}`, "59")); err != nil {
		t.Error(err)
	}
	if e := refused(t, chat(`{"model":"small"}`, "0")); e.Pool.String() != "llm/tokens:small" {
		t.Errorf("%v", e)
	}
	if err := chat(`{"model":"large"}`, "58"); err != nil {
		t.Errorf("another model: %v", err)
	}
	if text := r.log.String(); strings.Contains(text, "not understood") {
		t.Error(text)
	}
}

// The cost of one model says nothing about another.
func TestLearnedPricesOfKeys(t *testing.T) {
	const text = `
revision: 1
upstreams:
  llm:
    hosts: [api.example.com]
    pools:
      tokens: {quota: 100000, windows: [{per: 10m}], by: {body: model, default: other}}
    methods:
      chat:
        route: POST /chat
        charge: {tokens: {estimate: {body: max_tokens, default: 5000, learn: p95, first: 2000}, actual: {body: usage}}}
`
	costs := map[string]int64{"small": 10, "large": 1000}
	var r *rig
	var model string
	var reserved int64
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		all, _ := r.ledger.View().Usage(context.Background(), "llm", "")
		for _, u := range all {
			if u.Pool.Key == model {
				reserved = u.Windows[0].Used
			}
		}
		fmt.Fprintf(w, `{"usage": %d}`, costs[model])
	}, nil)
	r.ledger = newLedger(t, text, r.clock)
	r.meter(nil)
	chat := func(of string) int64 {
		r.clock.Advance(time.Hour)
		model = of
		r.post("http://api.example.com/chat", `{"model":"`+of+`"}`)
		r.flush()
		return reserved
	}
	for range 20 {
		if chat("small") != 2000 || chat("large") != 2000 {
			t.Fatal("learned from too few calls")
		}
	}
	if small, large, third := chat("small"), chat("large"), chat("third"); small > 11 || large < 1000 || large > 1100 || third != 2000 {
		t.Errorf("%d, %d and %d were reserved", small, large, third)
	}
}

// perCall has limits for each method, and for each method and thing that it changes.
const perCall = `
revision: 1
upstreams:
  jira:
    hosts: [api.example.com]
    refusals: [{status: 429, pools: [bursts], for: 30s}]
    pools:
      bursts: {quota: 3, windows: [{per: 1m}], by: {call: method}, keys: {search: 1}}
      writes: {quota: 2, windows: [{per: 1m}], by: [{call: method}, {path: id, default: none}]}
    methods:
      get: {route: "GET /issue/{id}", charge: {bursts: 1}}
      edit: {route: "PUT /issue/{id}", charge: {bursts: 1, writes: 1}}
      search: {route: GET /search, charge: {bursts: 1}}
    default: {"*": {charge: {bursts: 1}}}
`

// A key may be the method of the call, and have several parts. A refusal shuts the one that the call has.
func TestKeysOfMethods(t *testing.T) {
	status := http.StatusOK
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, nil)
	r.ledger = newLedger(t, perCall, r.clock)
	r.meter(nil)
	call := func(verb, path string) string {
		req, _ := http.NewRequestWithContext(t.Context(), verb, "http://api.example.com"+path, nil)
		resp, err := r.client.Do(req)
		var refused *quota.RefusedError
		switch {
		case errors.As(err, &refused):
			return refused.Pool.String()
		case err != nil:
			t.Fatal(err)
		}
		resp.Body.Close()
		return "sent"
	}
	for _, c := range []struct{ verb, path, want string }{
		{"PUT", "/issue/1", "sent"},
		{"PUT", "/issue/1", "sent"},
		{"PUT", "/issue/1", "jira/writes:edit,1"},
		{"PUT", "/issue/2", "sent"},
		{"PUT", "/issue/3", "jira/bursts:edit"},
		{"GET", "/issue/1", "sent"},
		{"GET", "/search", "sent"},
		{"GET", "/search", "jira/bursts:search"},
		{"GET", "/other", "sent"},
		{"POST", "/other", "sent"},
	} {
		if got := call(c.verb, c.path); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.verb, c.path, got, c.want)
		}
	}
	r.spentOf(map[string]int64{"jira/bursts:edit": 3, "jira/bursts:get": 1, "jira/bursts:* default": 2, "jira/writes:edit,2": 1})
	status = http.StatusTooManyRequests
	call("GET", "/issue/9")
	status = http.StatusOK
	if got := call("GET", "/issue/8"); got != "jira/bursts:get" {
		t.Errorf("a method that was refused: %s", got)
	}
	if got := call("POST", "/another"); got != "sent" {
		t.Errorf("another method: %s", got)
	}
	// Without HTTP, the ledger knows the method, and the other parts have their default.
	if _, err := r.ledger.Reserve(t.Context(), quota.Call{Upstream: "jira", Method: "edit"}); err == nil {
		t.Error("the ledger let a fourth edit through")
	} else if refused := (*quota.RefusedError)(nil); !errors.As(err, &refused) || refused.Pool.String() != "jira/bursts:edit" {
		t.Errorf("a reservation without keys: %v", err)
	}
}
