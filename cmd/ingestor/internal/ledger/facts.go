package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

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
	cmd := a.WithOutput(&cobra.Command{
		Use:   "facts [BOOK...]",
		Short: "List all facts of the built-in price books, to recheck them",
		Long: `List what the built-in price books say, a line for each fact: limits, prices, what answers
report and what refusals mean. Each book names its source, and the day on which somebody last
compared it with that. A person can recheck them with this list.

With --max-days, the command fails if a book was last compared longer ago. The release of
Headroom asks for 180 days.`,
		Example: `  ingestor costs facts builtin/github
  ingestor costs facts --max-days 180`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = headroom.ListBuiltin()
			}
			all, err := factsOf(args, a.Now())
			if err != nil {
				return err
			}
			if err := a.Print(all, func(s *console.Sheet) { writeFacts(s, all) }); err != nil || most == 0 {
				return err
			}
			return tooOld(all, most)
		},
	})
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return headroom.ListBuiltin(), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().IntVar(&most, "max-days", 0, "fail if a book was compared more than this number of `days` ago (default 0: never)")
	return cmd
}

// factsOf returns what built-in price books say.
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

func writeFacts(s *console.Sheet, all []bookFacts) {
	for _, f := range all {
		s.Line("%s, compared on %s, %d days ago", s.In(console.Bold, f.Book), f.Verified, f.Days)
		s.Line("  source: %s", f.Source)
		told(s, f.Facts)
	}
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
