package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/internal/recorded"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

func tryCommand(a *session.Session) *cobra.Command {
	var request, answer string
	cmd := a.Command("try [METHOD]", console.Takes(0, 1, "one method, or none if the request has a request line"), a.WithSettings(func(cmd *cobra.Command, args []string, s *settings.Settings) (err error) {
		c := recording{book: s.Book}
		if len(args) == 1 {
			if c.upstream, c.method, err = session.FindMethod(s.Book, args[0]); err != nil {
				return err
			}
		}
		if err := readRecording(a, &c, request, answer); err != nil {
			return err
		}
		t, err := try(cmd.Context(), a, &c)
		if err != nil {
			return err
		}
		return a.Print(t, func(s *console.Sheet) { writeTried(s, t) })
	}), a.CompleteFirst(session.MethodNames))
	cmd.Flags().StringVar(&request, "request", "", "`file` with the request, or with its JSON body")
	cmd.Flags().StringVar(&answer, "answer", "", "`file` with the answer, as curl -i prints it")
	return cmd
}

type recording struct {
	book     *quota.Book
	upstream *book.Upstream
	method   *book.Method // nil: the request line says
	request  *http.Request
	answer   *recorded.Message
}

func readRecording(a *session.Session, c *recording, request, answer string) error {
	switch {
	case answer == "":
		return console.Usage("--answer is missing: the file with the answer\nTo record one: curl -i URL > answer.txt")
	case request == "" && c.method == nil:
		return console.Usage("--request is missing: the file with the request\nFor a call without a body, name its method: ingestor costs try METHOD --answer %s", shell.Quote(answer))
	case request == "-" && answer == "-":
		return console.Usage("--request and --answer cannot both be the standard input; write one to a file")
	}
	message := &recorded.Message{Header: http.Header{}}
	if request != "" {
		text, err := readMessage(a, request)
		if err != nil {
			return err
		}
		message, err = recorded.ReadRequest(text)
		switch {
		case errors.Is(err, recorded.ErrNotHTTP):
			return console.Usage("the request in %s is neither HTTP nor JSON\nIt may be a JSON body, or begin with a line such as: POST /v1/messages HTTP/1.1", request)
		case err != nil:
			return console.Usage("the request in %s %w", request, err)
		}
	}
	if err := c.line(message, request); err != nil {
		return err
	}
	text, err := readMessage(a, answer)
	if err != nil {
		return err
	}
	c.answer, err = recorded.ReadAnswer(text)
	switch {
	case errors.Is(err, recorded.ErrNotHTTP):
		return console.Usage("the answer in %s is neither HTTP nor JSON\nTo record one with its headers: curl -i URL > answer.txt", answer)
	case errors.Is(err, recorded.ErrEmpty):
		return console.Usage("the answer in %s is empty\nTo record one with its headers: curl -i URL > answer.txt", answer)
	case err != nil:
		return console.Usage("the answer in %s %w", answer, err)
	}
	return nil
}

// readMessage reads a file, or the standard input.
func readMessage(a *session.Session, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.Stdin)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, console.Usage("%w\nTo record an answer: curl -i URL > answer.txt", err)
	}
	return text, nil
}

// line makes the request of a message, and finds its method.
func (c *recording) line(m *recorded.Message, path string) error {
	if m.First == "" {
		switch {
		case c.method == nil:
			return console.Usage("%s has no request line, so the method is not known\nName it: ingestor costs try METHOD --request %s --answer FILE", path, shell.Quote(path))
		case len(c.method.Routes) == 0:
			return console.Usage("method %s has no route, so it is not metered over HTTP\nAdd one to the price book, such as route: POST /v1/%[1]s", c.method.Name)
		}
		m.First = firstRoute(c.method.Routes[0], len(m.Body) > 0)
	}
	host := ""
	switch {
	case c.upstream != nil:
		host = firstHost(c.upstream)
	case len(c.book.Metered()) == 1:
		host = firstHost(c.book.Upstreams[c.book.Metered()[0]])
	}
	req, err := m.Request(host)
	switch {
	case err != nil:
		return console.Usage("the request in %s %w", path, err)
	case req.URL.Host == "":
		return console.Usage("the request in %s does not say where it goes\nAdd a line below the first one, such as: Host: api.example.com", path)
	}
	found := c.book.Match(req.Method, req.URL.Host, req.URL.EscapedPath())
	switch {
	case found.Upstream == nil:
		return console.Usage("no upstream of the price book has %s%s\nIts hosts: %s", req.URL.Host, req.URL.EscapedPath(), strings.Join(hosts(c.book), ", "))
	case c.method != nil && found.Method != c.method:
		is := "no method"
		if found.Method != nil {
			is = "the method " + found.Method.Name
		}
		return console.Usage("the request %s %s is %s, not %s\nLeave out %[4]s, or send one of its routes: %[5]s", req.Method, req.URL.EscapedPath(), is, c.method.Name, routes(c.method))
	}
	c.upstream, c.method, c.request = found.Upstream, found.Method, req
	return nil
}

// firstRoute makes a request line of a route, with a word in the place of each {name}.
func firstRoute(r book.Route, body bool) string {
	verb := r.Verb
	if verb == "*" {
		if verb = http.MethodGet; body {
			verb = http.MethodPost
		}
	}
	return verb + " " + strings.NewReplacer("{", "", "...}", "", "}", "").Replace(r.Path)
}

func firstHost(u *book.Upstream) string {
	if len(u.Hosts) == 0 {
		return ""
	}
	host, _, _ := strings.Cut(u.Hosts[0], "/")
	return strings.Replace(host, "*", "example", 1)
}

func hosts(b *quota.Book) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(b.Upstreams)) {
		all = append(all, b.Upstreams[name].Hosts...)
	}
	return all
}

func routes(m *book.Method) string {
	all := make([]string, len(m.Routes))
	for i, r := range m.Routes {
		all[i] = r.String()
	}
	return strings.Join(all, ", ")
}

func try(ctx context.Context, a *session.Session, c *recording) (*tried, error) {
	start := c.answer.Date()
	if start.IsZero() {
		start = a.Now()
	}
	player, err := recorded.New(c.book, start)
	if err != nil {
		return nil, err
	}
	if u := c.upstream; !u.AnyAccount && u.AccountFrom == (book.AccountFrom{}) && !slices.Contains(u.Accounts, quota.DefaultAccount) {
		ctx = meter.WithAccount(ctx, u.Accounts[0])
	}
	out, err := player.Call(ctx, c.request, c.answer)
	if err != nil {
		return nil, err
	}
	if out.Err != nil && out.Pools == nil {
		return nil, fmt.Errorf("the call is not sent: %w", out.Err)
	}
	return newTried(c, out, start), nil
}

// tried is what became of a recorded call, in JSON.
type tried struct {
	Upstream string        `json:"upstream"`
	Method   string        `json:"method"`
	Route    string        `json:"route"`
	Reserved []triedUnits  `json:"reserved"`
	Status   int           `json:"status"`
	Settled  []triedUnits  `json:"settled"` // what the call has cost
	Kept     []triedKept   `json:"kept"`    // estimates that stand, though the price reads the answer
	Reports  []triedReport `json:"reports"` // what the answer says about limits
	Others   []triedUnits  `json:"others"`  // that the upstream has counted, and that the call did not spend
	Limits   []triedUnits  `json:"limits"`  // of the upstream, which differ from the price book
	Told     []triedTold   `json:"told"`    // refusals that learned limits are told of
	Blocked  []triedBlock  `json:"blocked"`
	Error    string        `json:"error,omitempty"` // that the caller gets instead of the answer
	Pools    []triedState  `json:"pools"`           // after the call
	at       time.Time
}

type triedPool struct {
	Pool    string `json:"pool"`
	Account string `json:"account"`
	Key     string `json:"key,omitempty"`
}

type triedUnits struct {
	triedPool
	Units int64      `json:"units"`
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

type triedKept struct {
	Pool  string   `json:"pool"`
	Lacks []string `json:"lacks"` // what the answer does not have
}

type triedReport struct {
	Pool  string            `json:"pool"`  // or in words, if the answer does not name it
	Found map[string]string `json:"found"` // by what it is: remaining, limit
	Reset *time.Time        `json:"reset,omitempty"`
	Lacks []string          `json:"lacks"`
}

type triedTold struct {
	triedPool
	RetryAfter float64 `json:"retry_after"` // seconds that the answer asks to wait; 0: it does not say
	ruled      bool    // by a rule of the price book
}

type triedBlock struct {
	Pools []triedPool `json:"pools"`
	Until time.Time   `json:"until"`
}

type triedState struct {
	triedPool
	Windows []triedWindow `json:"windows"`
}

type triedWindow struct {
	Window string `json:"window"`
	Used   int64  `json:"used"`
	Limit  int64  `json:"limit"`
}

func newTried(c *recording, out *recorded.Outcome, at time.Time) *tried {
	t := &tried{
		Upstream: c.upstream.Name, Method: c.method.Name, Route: routes(c.method), Status: c.answer.Status(), at: at,
		Reserved: []triedUnits{}, Settled: []triedUnits{}, Kept: []triedKept{}, Reports: []triedReport{}, Others: []triedUnits{}, Limits: []triedUnits{}, Told: []triedTold{}, Blocked: []triedBlock{},
	}
	if out.Err != nil {
		t.Error = out.Err.Error()
	}
	for _, n := range out.Notes {
		t.note(n)
	}
	for _, s := range out.Pools {
		state := triedState{triedPool: poolTried(s.Pool)}
		for _, w := range s.Windows {
			state.Windows = append(state.Windows, triedWindow{w.Window, w.Used, w.Limit})
		}
		t.Pools = append(t.Pools, state)
	}
	for _, pool := range slices.Sorted(maps.Keys(c.method.Prices)) {
		t.keeps(c, pool, c.method.Prices[pool].Actual)
	}
	if b := c.method.Bill; b != nil && len(c.upstream.Budgets) > 0 {
		t.keeps(c, "the bill", slices.DeleteFunc(slices.Clone(b.Actual), func(s book.Source) bool { return s.Default != nil }))
	}
	for i := range c.upstream.Feedback {
		if c.upstream.Feedback[i].Standard {
			t.Reports = append(t.Reports, readStandard(c, at)...)
			continue
		}
		t.Reports = append(t.Reports, readReport(c, &c.upstream.Feedback[i], at))
	}
	return t
}

// keeps notes what an answer lacks of the numbers that its price would read.
func (t *tried) keeps(c *recording, what string, actual []book.Source) {
	var lacks []string
	for i := range actual {
		if c.answer.Read(&actual[i])[0] == "" {
			lacks = append(lacks, actual[i].String())
		}
	}
	if lacks != nil {
		t.Kept = append(t.Kept, triedKept{what, lacks})
	}
}

func (t *tried) note(n recorded.Note) {
	var charges []triedUnits
	var pools []triedPool
	for _, c := range n.Charges {
		charges = append(charges, triedUnits{triedPool: poolTried(c.Pool), Units: c.Units, Since: view.Instant(n.Since), Until: view.Instant(n.Until)})
		pools = append(pools, poolTried(c.Pool))
	}
	switch n.Kind {
	case recorded.Reserved:
		t.Reserved = append(t.Reserved, charges...)
	case recorded.Settled, recorded.Ended:
		t.Settled = append(t.Settled, charges...)
	case recorded.Others:
		t.Others = append(t.Others, charges...)
	case recorded.Limited:
		t.Limits = append(t.Limits, charges...)
	case recorded.Shut:
		until := n.Until
		if n.For > 0 {
			until = t.at.Add(n.For)
		}
		t.Blocked = append(t.Blocked, triedBlock{pools, until.UTC()})
	case recorded.Told:
		for _, pool := range pools {
			t.Told = append(t.Told, triedTold{pool, max(n.For.Seconds(), 0), n.Ruled})
		}
	case recorded.Answered:
	}
}

func poolTried(p quota.Pool) triedPool {
	if p.IsMoney() {
		p.Name = book.BudgetKey(p.Name)
	}
	return triedPool{p.Name, p.Account, p.Key}
}

// readStandard reads what the fields of the IETF report.
func readStandard(c *recording, at time.Time) (all []triedReport) {
	for _, l := range content.Limits(c.answer.Header) {
		r := triedReport{Found: map[string]string{}, Lacks: []string{}}
		if r.Pool, _ = l.In(c.upstream, c.method.Charges); r.Pool == "" {
			r.Pool = fmt.Sprintf("the policy %q of %d in %s, which is no pool of the price book", l.Name, l.Quota, l.Per)
		}
		if l.Remaining != nil {
			r.Found["remaining"] = strconv.FormatInt(*l.Remaining, 10)
		}
		if l.Quota > 0 {
			r.Found["limit"] = strconv.FormatInt(l.Quota, 10)
		}
		if l.Reset != 0 {
			r.Reset = view.Instant(at.Add(max(l.Reset, 0)))
		}
		all = append(all, r)
	}
	if all == nil {
		all = []triedReport{{Pool: "ietf", Found: map[string]string{}, Lacks: []string{"RateLimit and RateLimit-Policy"}}}
	}
	return all
}

// readReport reads what an answer reports about one pool.
func readReport(c *recording, f *book.Feedback, at time.Time) triedReport {
	r := triedReport{Pool: f.Pool.String(), Found: map[string]string{}, Lacks: []string{}}
	find := func(s *book.Source) string {
		text := c.answer.Read(s)[0]
		if text == "" {
			r.Lacks = append(r.Lacks, s.String())
		}
		return text
	}
	read := func(name string, s *book.Source) {
		if s != nil {
			if text := find(s); text != "" {
				r.Found[name] = text
			}
		}
	}
	if from := f.Pool.From; from != nil {
		if name := find(from); name != "" {
			r.Pool = cmp.Or(f.Pool.Pool(c.upstream, name), fmt.Sprintf("%q, which is no pool of the price book", name))
		}
	}
	read("remaining", f.Remaining)
	read("used", f.Used)
	read("used percent", f.UsedPercent)
	read("limit", f.Limit)
	if f.Reset != nil {
		if text := find(&f.Reset.Source); text != "" {
			until, wait, ok := content.Time(f.Reset.As, text)
			switch {
			case !ok:
				r.Lacks = append(r.Lacks, fmt.Sprintf("a reset in the form %s (%q is not)", f.Reset.As, text))
			case until.IsZero():
				until = at.Add(max(wait, 0))
			}
			r.Reset = view.Instant(until)
		}
	}
	return r
}

func writeTried(s *console.Sheet, t *tried) {
	s.Line("%s", s.In(console.Bold, t.Upstream+" "+t.Method))
	if t.Route != "" {
		s.Line("  %s", s.Wrap(t.Route, 2))
	}
	step(s, "reserves", unitsOf(t.Reserved))
	step(s, "answer", []string{strings.TrimSpace(fmt.Sprintf("%d %s", t.Status, http.StatusText(t.Status)))})
	settles := unitsOf(t.Settled)
	for _, k := range t.Kept {
		settles = append(settles, fmt.Sprintf("%s: the estimate stands, because the answer lacks %s", k.Pool, strings.Join(k.Lacks, " and ")))
	}
	step(s, "settles", settles)
	step(s, "learns", t.learns())
	step(s, "blocks", t.blocks())
	var now []string
	for _, p := range t.Pools {
		var windows []string
		for _, w := range p.Windows {
			windows = append(windows, fmt.Sprintf("%s of %s %s", view.Amount(p.Pool, w.Used), view.Amount(p.Pool, w.Limit), inWindow(w.Window)))
		}
		now = append(now, p.String()+": "+strings.Join(windows, ", "))
	}
	step(s, "now", now)
}

// inWindow says "in 1h", or "at once".
func inWindow(name string) string {
	if name == "at once" {
		return name
	}
	return "in " + name
}

// step writes what happens at one step of a call, a line for each thing.
func step(s *console.Sheet, name string, lines []string) {
	if len(lines) == 0 {
		lines = []string{"nothing"}
	}
	for i, text := range lines {
		if i > 0 {
			name = ""
		}
		s.Text.WriteString("  " + s.In(console.Faint, fmt.Sprintf("%-8s", name)) + "  " + s.Wrap(console.Plain(text), 12) + "\n")
	}
}

// String names the pool within its upstream.
func (p triedPool) String() string {
	name := p.Pool
	if p.Account != quota.DefaultAccount {
		name += " of account " + p.Account
	}
	if p.Key != "" {
		name += ", key " + p.Key
	}
	return name
}

func unitsOf(all []triedUnits) []string {
	lines := make([]string, len(all))
	for i, c := range all {
		lines[i] = c.String() + ": " + view.Units(c.Pool, c.Units)
	}
	return lines
}

// learns says what the answer tells about limits.
func (t *tried) learns() (lines []string) {
	for _, r := range t.Reports {
		var found []string
		for _, name := range []string{"remaining", "used", "used percent", "limit"} {
			if text := r.Found[name]; text != "" {
				found = append(found, name+" "+text)
			}
		}
		if r.Reset != nil {
			found = append(found, "until "+exactly(*r.Reset))
		}
		text := r.Pool + ": " + cmp.Or(strings.Join(found, ", "), "nothing")
		if len(r.Lacks) > 0 {
			text += "; the answer lacks " + strings.Join(r.Lacks, " and ")
		}
		lines = append(lines, text)
	}
	for _, c := range t.Told {
		line := c.String() + ": a refusal that names no time to wait"
		if c.RetryAfter > 0 {
			line = fmt.Sprintf("%s: a refusal that asks to wait for %s", c, console.Length(time.Duration(c.RetryAfter*float64(time.Second))))
		}
		lines = append(lines, line)
	}
	for _, c := range t.Limits {
		line := fmt.Sprintf("%s: the limit is %s", c, view.Number(c.Units))
		if c.Until != nil {
			line += " until " + exactly(*c.Until)
		}
		lines = append(lines, line)
	}
	for _, c := range t.Others {
		lines = append(lines, fmt.Sprintf("%s: others spent %s since %s", c, view.Units(c.Pool, c.Units), exactly(*c.Since)))
	}
	return lines
}

func (t *tried) blocks() (lines []string) {
	for _, b := range t.Blocked {
		names := make([]string, len(b.Pools))
		for i, p := range b.Pools {
			names[i] = p.String()
		}
		lines = append(lines, fmt.Sprintf("%s, until %s", strings.Join(names, " and "), exactly(b.Until)))
	}
	switch {
	case t.Error != "":
		lines = append(lines, "the caller gets an error: "+t.Error)
	case len(lines) == 0 && len(t.Told) > 0 && t.Told[0].ruled:
		lines = append(lines, "nothing: a learned limit is told of the refusal, and blocks no pool")
	case len(lines) == 0 && t.Status >= http.StatusBadRequest:
		lines = append(lines, "nothing: no refusal of the price book is about this answer")
	}
	return lines
}

// exactly formats a time with its seconds, in the zone of the terminal.
func exactly(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }
