// Package ledger has the commands that show and change the ledger, and those that explain
// the price book.
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/draft"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

func CostsCommand(a *session.Session) *cobra.Command {
	cmd := a.Command("costs", console.Known, nil)
	var diff bool
	show := a.Command("show [METHOD | UPSTREAM | FAMILY]", console.Takes(0, 1, "one method, upstream or family, or none for all"), func(cmd *cobra.Command, args []string) error {
		s, err := a.Settings(cmd.Flags())
		switch {
		case err != nil:
			return err
		case len(args) == 1 && diff:
			return console.Usage("--diff compares whole books; leave out %s", args[0])
		case len(args) == 1 && s.Book.Families[args[0]] != nil:
			return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) error {
				return showFamily(ctx, a, l, s.Book.Families[args[0]])
			})
		case len(args) == 1:
			return explain(a, s.Book, args[0])
		case diff && s.Costs == "":
			return showBook(a, []byte("# The price book is the built-in one, so nothing differs. To name another one: --costs FILE\n{}\n"))
		case diff:
			return showBook(a, s.Book.Diff())
		}
		if err := showBook(a, s.Book.Format()); err != nil {
			return err
		}
		return showSetLimits(a, cmd, s)
	}, a.CompleteFirst(session.MethodNames))
	for _, c := range []*cobra.Command{cmd, show} {
		c.Flags().BoolVar(&diff, "diff", false, "show only the differences from the book that it extends")
	}
	cmd.RunE = show.RunE
	cmd.AddCommand(show, listCostsCommand(a), factsCommand(a), learnedCommand(a), tryCommand(a), draftCommand(a))
	return cmd
}

func showBook(a *session.Session, text []byte) error {
	if a.Output == "json" {
		var book yaml.MapSlice // keeps the order
		if err := yaml.Unmarshal(text, &book); err != nil {
			return err
		}
		text, err := yaml.MarshalWithOptions(book, yaml.JSON())
		if err != nil {
			return err
		}
		return a.Print(json.RawMessage(text), nil)
	}
	_, err := a.Stdout.Write(text)
	return err
}

// builtinBook is a built-in price book in the list of them.
type builtinBook struct {
	Name      string   `json:"name"`
	Upstreams []string `json:"upstreams"`
	Verified  string   `json:"verified"` // the day, or "" if the book does not say
	Source    string   `json:"source"`
}

func listCostsCommand(a *session.Session) *cobra.Command {
	return a.Command("list", console.NoArgs, func(*cobra.Command, []string) error {
		var all []builtinBook
		for _, name := range headroom.ListBuiltin() {
			b, err := headroom.Load(name)
			if err != nil {
				return err
			}
			row := builtinBook{Name: name, Upstreams: slices.Sorted(maps.Keys(b.Upstreams))}
			for _, u := range b.Upstreams {
				row.Source = u.Source
				if !u.Verified.IsZero() {
					row.Verified = u.Verified.Format(time.DateOnly)
				}
			}
			all = append(all, row)
		}
		return a.Print(all, func(s *console.Sheet) {
			console.List(s, console.Columns("name", "upstream", "verified", "~source"), all, func(b *builtinBook) []string {
				return []string{b.Name, strings.Join(b.Upstreams, ", "), b.Verified, b.Source}
			})
		})
	})
}

type price struct {
	Upstream string            `json:"upstream"`
	Method   string            `json:"method"`
	Charges  map[string]int64  `json:"charges"`          // units by pool; of a price in Prices, if nothing is known of the call
	Prices   map[string]string `json:"prices,omitempty"` // in words, of pools whose price depends on the call
	Bill     string            `json:"bill,omitempty"`   // in words, in money
	Routes   []string          `json:"routes"`
	Outage   quota.Policy      `json:"outage"`
	Source   string            `json:"source,omitempty"`
}

// explained is an upstream in words, in JSON.
type explained struct {
	Upstream string   `json:"upstream"`
	Source   string   `json:"source,omitempty"`
	Verified string   `json:"verified,omitempty"`
	Methods  []price  `json:"methods"`
	Answers  []string `json:"answers"` // what answers tell
	Words    []string `json:"words"`   // what holds for all calls, answers included
}

func explain(a *session.Session, b *quota.Book, name string) error {
	if u := b.Upstreams[name]; u != nil {
		e := explainUpstream(u)
		return a.Print(e, func(s *console.Sheet) {
			s.Line("%s", s.In(console.Bold, e.Upstream))
			if e.Source != "" {
				verified := ""
				if e.Verified != "" {
					verified = ", verified on " + e.Verified
				}
				s.Line("  source: %s%s", e.Source, verified)
			}
			told(s, e.Words)
			for i := range e.Methods {
				writePrice(s, &e.Methods[i])
			}
		})
	}
	u, m, err := session.FindMethod(b, name)
	if err != nil {
		return err
	}
	p := explainMethod(u, m)
	return a.Print(p, func(s *console.Sheet) {
		writePrice(s, &p)
		told(s, session.Answers(u, m))
	})
}

func explainMethod(u *book.Upstream, m *book.Method) price {
	p := price{Upstream: u.Name, Method: m.Name, Charges: m.Charges, Routes: []string{}, Outage: m.Outage, Source: m.Source}
	for _, r := range m.Routes {
		p.Routes = append(p.Routes, r.String())
	}
	if m.Bill != nil {
		p.Bill = m.Bill.String()
	}
	for pool, depends := range m.Prices {
		if p.Prices == nil {
			p.Prices = map[string]string{}
		}
		p.Prices[pool] = depends.String()
	}
	return p
}

func explainUpstream(u *book.Upstream) *explained {
	e := &explained{Upstream: u.Name, Source: u.Source, Methods: []price{}, Answers: session.Answers(u, nil), Words: u.Words()}
	if !u.Verified.IsZero() {
		e.Verified = u.Verified.Format("2006-01-02")
	}
	for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
		e.Methods = append(e.Methods, explainMethod(u, u.Methods[m]))
	}
	for _, verb := range slices.Sorted(maps.Keys(u.Default)) {
		e.Methods = append(e.Methods, explainMethod(u, u.Default[verb]))
	}
	return e
}

// told lists what answers tell.
func told(s *console.Sheet, answers []string) {
	for _, text := range answers {
		s.Line("  %s", s.Wrap(text, 4))
	}
}

func writePrice(s *console.Sheet, p *price) {
	s.Line("%s", s.In(console.Bold, p.Upstream+" "+p.Method))
	for _, pool := range slices.Sorted(maps.Keys(p.Charges)) {
		text := view.Units("", p.Charges[pool])
		if words := p.Prices[pool]; words != "" {
			text = words
		}
		s.Line("  %s", s.Wrap(pool+": "+text, 4))
	}
	if p.Bill != "" {
		s.Line("  %s", s.Wrap("bill: "+p.Bill, 4))
	}
	for _, r := range p.Routes {
		s.Line("  %s", r)
	}
	s.Line("  while the ledger is unreachable: %s", p.Outage)
	if p.Source != "" {
		s.Line("  source: %s", s.Wrap(p.Source, 10))
	}
}

// bookFacts is what a built-in price book says of an upstream, in JSON.
type bookFacts struct {
	Book     string   `json:"book"`
	Upstream string   `json:"upstream"`
	Source   string   `json:"source"`
	Verified string   `json:"verified"` // the day
	Days     int      `json:"days"`     // since then
	Facts    []string `json:"facts"`
}

func factsCommand(a *session.Session) *cobra.Command {
	var most int
	cmd := a.Command("facts [BOOK...]", nil, func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = headroom.ListBuiltin()
		}
		all, err := factsOf(args, a.Now())
		if err != nil {
			return err
		}
		err = a.Print(all, func(s *console.Sheet) {
			for _, f := range all {
				s.Line("%s, compared on %s, %d days ago", s.In(console.Bold, f.Book), f.Verified, f.Days)
				s.Line("  source: %s", f.Source)
				told(s, f.Facts)
			}
		})
		if err != nil || most == 0 {
			return err
		}
		return tooOld(all, most)
	})
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return headroom.ListBuiltin(), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().IntVar(&most, "max-days", 0, "fail if a book was compared more than this number of `days` ago (default 0: never)")
	return cmd
}

func factsOf(names []string, now time.Time) ([]bookFacts, error) {
	var all []bookFacts
	for _, name := range names {
		if !slices.Contains(headroom.ListBuiltin(), name) {
			return nil, console.Usage("there is no built-in price book %q\nTo list them: ingestor costs list", name)
		}
		b, err := headroom.Load(name)
		if err != nil {
			return nil, err
		}
		for _, of := range slices.Sorted(maps.Keys(b.Upstreams)) {
			e := explainUpstream(b.Upstreams[of])
			f := bookFacts{Book: name, Upstream: of, Source: e.Source, Verified: e.Verified, Facts: e.Words}
			f.Days = int(now.Sub(b.Upstreams[of].Verified) / (24 * time.Hour))
			for i := range e.Methods {
				f.Facts = append(f.Facts, "method "+e.Methods[i].words())
			}
			all = append(all, f)
		}
	}
	return all, nil
}

// words says in one line what a method costs.
func (p *price) words() string {
	var costs []string
	for _, pool := range slices.Sorted(maps.Keys(p.Charges)) {
		text := fmt.Sprint(p.Charges[pool])
		if words := p.Prices[pool]; words != "" {
			text = words
		}
		costs = append(costs, pool+" "+text)
	}
	if p.Bill != "" {
		costs = append(costs, "bill "+p.Bill)
	}
	text := p.Method + ": " + strings.Join(costs, "; ")
	if len(p.Routes) > 0 {
		text += " (" + strings.Join(p.Routes, ", ") + ")"
	}
	if p.Source != "" {
		text += "; source: " + p.Source
	}
	return text
}

// tooOld returns an error that names the books that were compared too long ago.
func tooOld(all []bookFacts, most int) error {
	var old []string
	for _, f := range all {
		if f.Days > most {
			old = append(old, fmt.Sprintf("%s on %s", f.Book, f.Verified))
		}
	}
	if old == nil {
		return nil
	}
	return &console.Exit{Code: console.ExitFailed, Err: fmt.Errorf("these books were compared with their sources more than %d days ago: %s\nCompare each with its source, correct it, and write the day of today into verified", most, strings.Join(old, ", "))}
}

func draftCommand(a *session.Session) *cobra.Command {
	var kinds, hosts []string
	var out string
	var overwrite bool
	cmd := console.Command("draft [--from KIND FILE]...", nil, func(_ *cobra.Command, files []string) error {
		d := draft.New()
		sources := map[string]func(string, []byte) error{"har": d.HAR, "log": d.Log, "openapi": d.OpenAPI, "api-commons": d.Commons}
		switch {
		case len(kinds) == 0 && len(hosts) == 0 && len(files) == 0:
			return console.Usage("nothing to draft from\nName a source: ingestor costs draft --from har FILE")
		case len(kinds) != len(files):
			return console.Usage("each --from needs a kind and a file, as in --from har calls.har; there are %d kinds and %d files", len(kinds), len(files))
		}
		for _, host := range hosts {
			if err := d.Host(host); err != nil {
				return console.Usage("--host %s %w", host, err)
			}
		}
		for i, file := range files {
			read := sources[kinds[i]]
			if read == nil {
				return console.Usage("--from %s is not known; it is one of har, log, openapi and api-commons", kinds[i])
			}
			text, err := readDraftSource(a, file)
			if err != nil {
				return err
			}
			name := filepath.Base(file)
			if file == "-" {
				name = "standard input"
			}
			d.Folder = filepath.Dir(file)
			if err := read(name, text); err != nil {
				return console.Usage("%s %w", file, err)
			}
		}
		text, notes := d.Book()
		if !strings.Contains(text, "hosts: ") {
			return console.Usage("no source names a host with an API\nName it: --host api.example.com")
		}
		if _, err := book.Parse("the draft", []byte(text), nil); err != nil {
			return fmt.Errorf("the draft is no valid price book, which is a defect of this program: %w", err)
		}
		if err := writeDraft(a, out, text, overwrite); err != nil {
			return err
		}
		for _, note := range notes {
			fmt.Fprintln(a.Stderr, note)
		}
		return nil
	})
	cmd.Flags().StringArrayVar(&kinds, "from", nil, "`kind` of the next FILE: har, log, openapi or api-commons")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "`host` of the API, if no source names it")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write to, instead of the standard output")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace the file if it exists")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"har", "log", "openapi", "api-commons"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// mostSource is how many bytes of a source are read.
const mostSource = 1 << 30

func readDraftSource(a *session.Session, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(a.Stdin, mostSource))
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, console.Usage("%w", err)
	case info.Size() > mostSource:
		return nil, console.Usage("%s is longer than 1 GiB; a draft needs a few hundred calls", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, console.Usage("%w", err)
	}
	return text, nil
}

func writeDraft(a *session.Session, out, text string, overwrite bool) error {
	if out == "" {
		_, err := io.WriteString(a.Stdout, text)
		return err
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if overwrite {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(out, how, 0o644) //nolint:gosec // a price book is no secret
	if errors.Is(err, os.ErrExist) {
		return console.Usage("%s exists\nTo replace it: --overwrite", shell.Quote(out))
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write the draft: %w", err)
	}
	return nil
}
