package open_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// A provider sells tokens of two models. It bills by itself, in its own arithmetic: its prices
// are millionths for a million tokens of input, cached input and output.
type provider struct {
	*httptest.Server
	prices map[string][3]int64
	wild   bool // it cuts streams

	mu    sync.Mutex
	bills map[string]billed // by id of the request
}

// billed is what a call has cost, and the most that it could.
type billed struct{ cost, most int64 }

func newProvider(t *testing.T, wild bool, factor int64) *provider {
	p := &provider{wild: wild, bills: map[string]billed{}, prices: map[string][3]int64{
		"large": {2_500_000 * factor, 250_000 * factor, 15_000_000 * factor},
		"small": {75_000 * factor, 10_000 * factor, 300_000 * factor},
	}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		ID, Model string
		MaxTokens int64 `json:"max_tokens"`
		N         int64
		Stream    bool
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	price, known := p.prices[asked.Model]
	if err != nil || !known {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	input := rand.Int64N(int64(len(body))) + 1
	cached, output := rand.Int64N(input), rand.Int64N(asked.MaxTokens*asked.N+1)
	cut := p.wild && asked.Stream && rand.IntN(6) == 0
	if cut {
		output /= 2
	}
	p.mu.Lock()
	p.bills[asked.ID] = billed{
		((input-cached)*price[0] + cached*price[1] + output*price[2] + 999_999) / 1_000_000,
		(int64(len(body))*price[0] + asked.MaxTokens*asked.N*price[2] + 999_999) / 1_000_000,
	}
	p.mu.Unlock()
	usage := fmt.Sprintf(`{"usage":{"input":%d,"cached":%d,"output":%d}}`, input, cached, output)
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range 3 {
		fmt.Fprint(w, "data: {\"text\":\"some\"}\n\n")
		w.(http.Flusher).Flush()
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", usage)
}

// budgetBook is the price book of three providers and their budget, with steps if there are some. Each says its prices
// as its own page would.
func budgetBook(millionths int64, steps string, all []*provider) string {
	text := "revision: 1\nbudgets: {team: {quota: " + book.FormatMoney(millionths) + ", windows: [{per: month}, {per: 24h}], of: [p0, p1, p2]" + steps + "}}\nupstreams:\n"
	for i, p := range all {
		cases := ""
		for model, price := range p.prices {
			cases += fmt.Sprintf("%s: {input: %s, cached: %s, output: %s}, ", model, book.FormatMoney(price[0]), book.FormatMoney(price[1]), book.FormatMoney(price[2]))
		}
		text += fmt.Sprintf(`  p%d:
    hosts: ["%s"]
    pools: {calls: {quota: 1000000, windows: [{per: 1m}]}}
    classes: {background: {keep_free: 1%%}}
    prices: {by: {body: model}, cases: {%s}}
    methods:
      ask:
        route: POST /ask
        cost: 1
        bill:
          estimate: [{bytes: body, price: input}, {body: max_tokens, default: 1000, copies: n, price: output}]
          actual:
            - {body: usage.input, less: usage.cached, price: input}
            - {body: usage.cached, default: 0, price: cached}
            - {body: usage.output, price: output}
`, i, strings.TrimPrefix(p.URL, "http://"), strings.TrimSuffix(cases, ", "))
	}
	return text
}

// spendMoney is a process that calls three providers until the budget is spent. In the folder at
// path are a price book and the address of the ledger.
func spendMoney(path string, begin func() bool, out io.Writer) error {
	text, err := os.ReadFile(filepath.Join(path, "costs.yaml"))
	if err != nil {
		return err
	}
	costs, err := book.Parse("costs.yaml", text, nil)
	if err != nil {
		return err
	}
	address, err := os.ReadFile(filepath.Join(path, "address"))
	if err != nil {
		return err
	}
	opened, err := open.Open(context.Background(), string(address), &open.Options{Book: costs, State: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	transport, err := meter.New(opened.Ledger, &meter.Options{Base: &http.Transport{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if !begin() {
		return nil
	}
	calls := 0 // until the budget is spent
	if os.Getenv("CALLS") != "" {
		calls = 15
	}
	var callers sync.WaitGroup
	var mu sync.Mutex
	failed := make(chan error, 3)
	for c := range 3 {
		callers.Go(func() {
			failed <- callProviders(transport, costs, fmt.Sprintf("%d-%d", os.Getpid(), c), calls, func(id string, heard bool) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintln(out, id, heard)
			})
		})
	}
	callers.Wait()
	err = errors.Join(<-failed, <-failed, <-failed, transport.Flush(context.Background()))
	return errors.Join(err, leave(opened))
}

// callProviders makes calls, and tells of each one that was sent, and whether its answer was read to the end. Without a
// number, it goes on until not even the smallest call is granted any more, and hangs up in some answers. It tells of
// outages, too: the ledger may have charged what it could not say in time.
func callProviders(transport http.RoundTripper, costs *quota.Book, name string, calls int, tell func(id string, heard bool)) error {
	most, tries, outages := 400, 0, 0
	for n := 0; calls == 0 || n < calls; n++ {
		at := costs.Upstreams[fmt.Sprint("p", rand.IntN(3))].Hosts[0]
		model := "large"
		if most < 20 || rand.IntN(4) == 0 {
			model = "small"
		}
		id := fmt.Sprint(name, "-", n)
		body := fmt.Sprintf(`{"id":%q,"model":%q,"max_tokens":%d,"n":%d,"stream":%t,"text":%q}`,
			id, model, rand.IntN(most)+1, rand.IntN(2)+1, rand.IntN(2) == 0, strings.Repeat("word ", rand.IntN(30)))
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+"/ask", bytes.NewReader([]byte(body)))
		if err != nil {
			cancel()
			return err
		}
		resp, err := transport.RoundTrip(req)
		switch {
		case errors.Is(err, quota.ErrRefused):
			cancel()
			if most = max(most/2, 1); most > 1 {
				continue
			}
			if tries++; tries > 40 {
				return nil
			}
			time.Sleep(25 * time.Millisecond) // calls under way give something back
			continue
		case errors.Is(err, quota.ErrOutage) && outages < 600: // the server of a busy machine did not answer in time
			cancel()
			outages++
			tell(fmt.Sprint("outage-", outages, "-", id), false)
			n--
			time.Sleep(100 * time.Millisecond)
			continue
		case err != nil:
			cancel()
			return err
		}
		hangsUp := calls == 0 && rand.IntN(12) == 0
		if hangsUp {
			_, err = io.CopyN(io.Discard, resp.Body, 8)
		} else {
			_, err = io.Copy(io.Discard, resp.Body) // the provider may cut it
		}
		_ = resp.Body.Close()
		cancel()
		tell(id, err == nil && !hangsUp)
	}
	return nil
}

// Processes on each store share one budget over three providers. While each answer is heard, the ledger has what the
// providers bill, to the millionth. When streams are cut and processes are killed, the budget is still never passed,
// nor the rate of a step, and nearly all of it is used.
func TestOneBudgetOfManyProcesses(t *testing.T) {
	addresses := map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") },
		"redis": func(t *testing.T) string {
			server, err := redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Kill)
			return "redis://" + server.Addr + "/0"
		},
		"cluster": func(t *testing.T) string {
			c, err := redistest.StartCluster(t.TempDir(), 3)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Kill)
			return "redis://" + c.Addrs()[0] + "?addr=" + strings.Join(c.Addrs()[1:], "&addr=")
		},
		"postgres": func(t *testing.T) string { return pgtest.Shared(t) },
	}
	dearest := int64(2*400*15*3 + 300*3) // of one call
	calls := int64(60)
	if os.Getenv("HEADROOM_SOAK") != "" {
		calls = 1000
	}
	for name, address := range addresses {
		for _, mode := range []string{"heard", "wild", "wild and slowed down", "wild and raised", "wild and of another class"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				millionths, wild, steps := calls*dearest, mode != "heard", ""
				if !wild {
					millionths = 10_000 * dearest
				}
				bound := millionths // of what is spent
				switch mode {
				case "wild and slowed down":
					bound = millionths / 10 * 7
					steps = ", then: [{at: 50%, slow: " + book.FormatMoney(bound) + ", per: 24h}]"
				case "wild and of another class":
					steps = ", then: [{at: 50%, class: background}]"
				case "wild and raised":
					bound = millionths / 10 * 13
				}
				providers := []*provider{newProvider(t, wild, 1), newProvider(t, wild, 2), newProvider(t, wild, 3)}
				at, dir := address(t), t.TempDir()
				text := budgetBook(millionths, steps, providers)
				for file, text := range map[string]string{"costs.yaml": text, "address": at} {
					if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if l := budgetLedger(t, text, at); bound > millionths {
					if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: book.Budgets, Key: "team", Quota: bound, By: "a test"}); err != nil {
						t.Fatal(err)
					}
				}
				told := runProcesses(t, dir, wild)
				ledger := budgetLedger(t, text, at)
				used := budgetUsed(t, ledger)
				if mode == "wild and of another class" {
					classes := map[string]int64{}
					spend, err := ledger.View().Spend(t.Context(), quota.SpendQuery{Upstream: book.Budgets}, quota.ByClass)
					for _, s := range spend {
						classes[s.Labels.Class] += s.Units
					}
					if err != nil || classes[""] > millionths/2 || classes[""]+classes["background"] != used || classes["background"]*100 < used*45 {
						t.Errorf("the calls of each class spent %v of %d, %v: want at most half without a class, and the rest in the background", classes, used, err)
					}
				}
				sum := map[string]int64{} // of money, and of calls
				for _, p := range providers {
					p.mu.Lock()
					for id, one := range p.bills {
						is := "of the killed" // nobody knows whether they were heard
						if heard, known := told[id]; known && heard {
							is = "heard"
						} else if known {
							is = "cut"
						}
						sum["calls"]++
						sum["calls "+is]++
						sum["billed"] += one.cost
						sum[is] += one.cost
						sum["most "+is] += one.most
					}
					p.mu.Unlock()
				}
				t.Logf("%d calls: %d heard, %d cut, %d of killed processes; billed %s, in the ledger %s of %s, %.4f", sum["calls"], sum["calls heard"], sum["calls cut"],
					sum["calls of the killed"], book.FormatMoney(sum["billed"]), book.FormatMoney(used), book.FormatMoney(bound), float64(used)/float64(bound))
				// What was heard is in the ledger as it was billed, and what was cut as it was reserved. A killed process may also
				// have reserved a call that it did not send, and not have settled one that it told of: for each of its callers.
				least := sum["heard"] + sum["most cut"] + sum["of the killed"]
				most := sum["heard"] + sum["most cut"] + sum["most of the killed"]
				outages := int64(0)
				for id := range told {
					if strings.HasPrefix(id, "outage-") {
						outages++
					}
				}
				most += outages * dearest
				if wild {
					most += 2 * 3 * 3 * dearest
				}
				switch {
				case sum["billed"] > used || used > bound:
					t.Error("the bill passes the ledger, or the ledger the budget or the rate of its step")
				case used < least || used > most:
					t.Errorf("the ledger has %d, and should have %d to %d", used, least, most)
				case !wild && (sum["billed"] != used && outages == 0 || sum["calls"] != 8*3*15):
					t.Error("the ledger does not have what was billed")
				case wild && used*100 < bound*97:
					t.Error("less than 0.97 of the budget is used")
				}
			})
		}
	}
}

// runProcesses runs eight processes. If it is wild, three of them are killed like kill -9, and others take their place.
// It returns which calls they told of, and whether their answers were read to the end.
func runProcesses(t *testing.T, dir string, wild bool) map[string]bool {
	told := map[string]bool{}
	note := func(lines ...string) {
		for _, line := range lines {
			if id, heard, whole := strings.Cut(line, " "); whole {
				told[id] = heard == "true"
			}
		}
	}
	env := []string{"CALLS=yes"}
	if wild {
		env = nil
	}
	var all []*childtest.Child
	for range 8 {
		all = append(all, childtest.Start(t, "spend money", dir, env...))
	}
	for _, c := range all {
		c.Begin()
	}
	for i := range 3 {
		if !wild {
			break
		}
		for range i + 1 {
			note(all[i].Line())
		}
		note(all[i].Kill()...)
		all[i] = childtest.Start(t, "spend money", dir)
		all[i].Begin()
	}
	for _, c := range all {
		note(c.Rest()...)
	}
	return told
}

// budgetLedger opens the ledger of a price book with a budget.
func budgetLedger(t *testing.T, text, address string) *quota.Ledger {
	t.Helper()
	costs, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := open.Open(t.Context(), address, &open.Options{Book: costs, State: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened.Ledger
}

// budgetUsed returns what a ledger has of the budget.
func budgetUsed(t *testing.T, l *quota.Ledger) int64 {
	t.Helper()
	all, err := l.View().Usage(t.Context(), book.Budgets, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		for _, w := range u.Allowances {
			if u.Pool.Name == "team" && w.Window == "24h" {
				return w.Used
			}
		}
	}
	t.Fatal("the budget has no window of 24 hours")
	return 0
}
