package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/googlecount"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

func ReconcileCommand(a *session.Session) *cobra.Command {
	var apply, down bool
	cmd := a.Command("reconcile", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if down && !apply {
			return console.Usage("--down goes with --apply")
		}
		with := a.WithLedgerToRead
		if apply {
			with = a.WithLedger
		}
		return with(cmd, func(ctx context.Context, l *quota.Ledger) error {
			c, err := counting.NewCounts(ctx, a, a.Loaded, l)
			if err != nil {
				return err
			}
			now := a.Now()
			views, unknown := []CountView{}, []googlecount.Count{}
			for _, account := range slices.Sorted(maps.Keys(c.Readers)) {
				all, strange, failed := c.Read(ctx, account, now)
				err, unknown = errors.Join(err, failed), append(unknown, strange...)
				for _, one := range all {
					if apply {
						err = errors.Join(err, c.Record(ctx, one, down))
					}
					views = append(views, viewCount(one, now))
				}
			}
			if len(views) == 0 && err != nil {
				return err
			}
			return errors.Join(a.Print(views, func(s *console.Sheet) { WriteCounts(s, views, unknown, now, apply, down) }), err)
		})
	})
	settings.AddFlags(cmd, cmd.Flags(), settings.ForCounts, "watch", "adopt_limits")
	cmd.Flags().BoolVar(&apply, "apply", false, "record the units of others")
	cmd.AddCommand(anthropicCommand(a))
	cmd.Flags().BoolVar(&down, "down", false, "with --apply: give back units that Google has not counted")
	return cmd
}

// CountView is Google's own count of a pool, in JSON.
type CountView struct {
	Pool    string    `json:"pool"`
	Project string    `json:"google_project"`
	Metric  string    `json:"metric"`
	Since   time.Time `json:"since"` // midnight in California
	// Theirs is what Google has counted until AsOf; null if it has reported nothing today.
	Theirs *int64     `json:"theirs"`
	AsOf   *time.Time `json:"as_of"`
	Late   *int64     `json:"late_seconds"`
	Ours   int64      `json:"ours"`
	After  int64      `json:"ours_after"` // of Ours, those after AsOf
	Others int64      `json:"others"`     // in the ledger
	// Difference is what Google has counted and the ledger has not. With AtLeast it may be
	// more. All numbers are those after Recorded was recorded.
	Difference *int64 `json:"difference"`
	AtLeast    bool   `json:"difference_at_least,omitempty"`
	Recorded   int64  `json:"recorded"`
	Quota      int64  `json:"quota"`
	Limit      *int64 `json:"google_limit"`
}

func viewCount(c *counting.Counted, now time.Time) CountView {
	v := CountView{
		Pool: c.Pool.String(), Project: c.Project, Metric: c.Count.Metric, Since: c.Asked.From.UTC(),
		Ours: c.Ours, After: c.Late, Others: c.Others, Recorded: c.Recorded, Quota: c.Quota,
	}
	if c.HasCount() {
		late, missing := int64(now.Sub(c.Count.Until)/time.Second), c.Missing
		v.Theirs, v.AsOf, v.Late = &c.Count.Units, view.Instant(c.Count.Until), &late
		v.Difference, v.AtLeast = &missing, !c.Known
	}
	if c.Count.Limited {
		v.Limit = &c.Count.Limit
	}
	return v
}

// WriteCounts shows Google's own counts beside those of the ledger.
func WriteCounts(s *console.Sheet, all []CountView, unknown []googlecount.Count, now time.Time, applied, down bool) {
	var rows [][]string
	for i := range all {
		v := &all[i]
		row := []string{v.Pool, view.Number(v.Ours), view.Number(v.Others), "-", "nothing reported", "", ""}
		if v.Theirs != nil {
			row[3], row[4] = view.Number(*v.Theirs), console.Span(now.Sub(*v.AsOf))+" late"
			row[5], row[6] = view.Number(v.After), view.Number(*v.Difference)
			if *v.Difference > 0 {
				row[6] = "+" + row[6]
			}
			if v.AtLeast {
				row[6] = "at least " + row[6]
			}
		}
		rows = append(rows, row)
	}
	if len(all) > 0 {
		s.Line("%s", s.In(console.Faint, "since midnight in California, "+console.Stamp(all[0].Since)))
	}
	s.Table(console.Columns("pool", ">ours", ">others", ">google's", "which is", ">ours after", ">difference"), rows)
	for i := range all {
		for _, line := range all[i].Says(applied, down) {
			s.Line("%s", line)
		}
	}
	for _, c := range unknown {
		s.Line("Google has counted %s units of %s, which no pool of the price book counts.", view.Number(c.Units), console.Plain(c.Metric))
	}
}

// Says says what was done about a count, or what to type.
func (v *CountView) Says(applied, down bool) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	missing := int64(0)
	if v.Difference != nil {
		missing = *v.Difference
	}
	switch {
	case v.Recorded > 0:
		say("Recorded %s units of others in %s.", view.Number(v.Recorded), v.Pool)
	case v.Recorded < 0:
		say("Gave back %s units of %s.", view.Number(-v.Recorded), v.Pool)
	case missing > 0 && !applied:
		say("Others have spent %s units of %s that the ledger lacks. To record them: ingestor reconcile --apply", view.Number(missing), v.Pool)
	case missing < 0 && v.AtLeast:
		say("The ledger counts %s units of %s more than Google. Nothing can be given back: the pool has no sliding window, so the ledger does not know which units Google has yet to count.", view.Number(-missing), v.Pool)
	case missing < 0 && down:
		say("The ledger counts %s units of %s more than Google. Nothing was given back: they were reserved in the half hour before Google's count ended, and Google may count them later.", view.Number(-missing), v.Pool)
	case missing < 0:
		say("The ledger counts %s units of %s more than Google. If Google is right: ingestor reconcile --apply --down", view.Number(-missing), v.Pool)
	}
	if v.Limit != nil && *v.Limit != v.Quota {
		say("Google's limit of %s is %s, and the quota of the price book %s. To use Google's: adopt_limits: true in ingestor.yaml, or change the quota in the price book.", v.Pool, view.Number(*v.Limit), view.Number(v.Quota))
	}
	return all
}

const (
	anthropicHost = "api.anthropic.com"
	// adminKey is the variable with the key that may read the limits of an organization.
	adminKey = "ANTHROPIC_ADMIN_KEY"
	// mostPages and mostPage bound what is read of its answers.
	mostPages, mostPage = 100, 8 << 20
)

// anthropicCommand compares the limits in force with those that Anthropic's Rate Limits API tells.
func anthropicCommand(a *session.Session) *cobra.Command {
	var apply bool
	var workspace, server string
	cmd := a.Command("anthropic", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		key := strings.TrimSpace(os.Getenv(adminKey))
		if key == "" {
			return console.Config(fmt.Errorf("there is no Admin key; put it into the variable %s", adminKey))
		}
		told, err := readAnthropic(cmd.Context(), server, workspace, key)
		if err != nil {
			return err
		}
		with := a.WithLedgerToRead
		if apply {
			with = a.WithLedger
		}
		return with(cmd, func(ctx context.Context, l *quota.Ledger) error {
			all, unknown, err := limitsOf(l.Book(), told)
			if err != nil {
				return err
			}
			admin := l.Admin()
			differ := []wantedLimit{}
			for _, k := range all {
				t, err := admin.TryLimit(ctx, k.KeyLimit)
				if err != nil {
					return console.BadUsage(k.says(err))
				}
				if t.Before != t.Limit {
					differ = append(differ, k)
				}
			}
			for _, what := range unknown {
				fmt.Fprintf(a.Stderr, "Anthropic tells %s, which no pool of the price book counts\n", what)
			}
			if len(differ) == 0 {
				return a.Print(differ, func(s *console.Sheet) {
					s.Line("All %d limits in force are those that Anthropic tells.", len(all))
				})
			}
			c := &limitChange{dry: !apply}
			if err := c.make(ctx, a, l, differ); err != nil || apply {
				return err
			}
			if a.Output == "table" {
				_, err = fmt.Fprintln(a.Stdout, "To set them, add --apply to this command.")
			}
			return err
		})
	})
	cmd.Flags().BoolVar(&apply, "apply", false, "set the limits that differ")
	cmd.Flags().StringVar(&workspace, "workspace", "", "`id` of a workspace: its limits, in place of those of the organization")
	cmd.Flags().StringVar(&server, "server", "https://"+anthropicHost, "`address` of the API")
	return cmd
}

// toldLimit is a group of limits, as the Rate Limits API tells it.
type toldLimit struct {
	GroupType string                `json:"group_type"`
	Group     struct{ Type string } `json:"group"` // in the newer form of the API
	Models    []string              `json:"models"`
	Limits    []struct {
		Type  string `json:"type"`
		Value *int64 `json:"value"`
	} `json:"limits"`
}

// readAnthropic reads all pages of limits. No error shows the key.
func readAnthropic(ctx context.Context, server, workspace, key string) (all []toldLimit, err error) {
	at, err := url.Parse(strings.TrimSuffix(server, "/") + "/v1/organizations/rate_limits")
	if err == nil && at.Host == "" {
		err = errors.New("it has no host")
	}
	if err != nil {
		return nil, console.Usage("--server: %w", err)
	}
	query := url.Values{}
	if workspace != "" {
		if strings.ContainsAny(workspace, "./?#% ") {
			return nil, console.Usage("--workspace: %q is no id of a workspace; the console shows it, as wrkspc_01AB", workspace)
		}
		at = at.JoinPath("..", "workspaces", workspace, "rate_limits")
		query.Set("include_inherited", "true")
	}
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for range mostPages {
		at.RawQuery = query.Encode()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header = http.Header{"X-Api-Key": {key}, "Anthropic-Version": {"2023-06-01"}, "User-Agent": {"headroom-ingestor"}}
		resp, err := client.Do(req)
		if err != nil {
			return nil, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("ask Anthropic for its limits: %w", err)}
		}
		var page struct {
			Data []toldLimit `json:"data"`
			Next string      `json:"next_page"`
		}
		err = json.NewDecoder(io.LimitReader(resp.Body, mostPage)).Decode(&page)
		_ = resp.Body.Close() // it was read
		switch {
		case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
			return nil, &console.Exit{Code: console.ExitCredential, Err: fmt.Errorf("Anthropic does not accept the key in %s for its limits (%s); it must be an Admin key, such as sk-ant-admin", adminKey, resp.Status)} //nolint:staticcheck // a name
		case resp.StatusCode != http.StatusOK:
			return nil, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("ask Anthropic for its limits: it answered %s", resp.Status)}
		case err != nil:
			return nil, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("read the limits that Anthropic tells: %w", err)}
		}
		all = append(all, page.Data...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("page", page.Next)
	}
	return nil, fmt.Errorf("Anthropic tells limits on more than %d pages", mostPages) //nolint:staticcheck // a name
}

// limitsOf returns what was told as limits of the pools of a book, by their metrics, and what has no pool. Of several
// limits of one key the lowest holds.
func limitsOf(b *quota.Book, told []toldLimit) (all []wantedLimit, unknown []string, err error) {
	var u *book.Upstream
	for _, name := range b.Metered() {
		if slices.Contains(b.Upstreams[name].Hosts, anthropicHost) {
			u = b.Upstreams[name]
		}
	}
	if u == nil {
		return nil, nil, console.Config(fmt.Errorf("the price book has no upstream with the host %s; write extends: builtin/anthropic into it, or use --costs builtin/anthropic", anthropicHost))
	}
	add := func(key string, n int64) {
		for i := range all {
			if all[i].Key == key {
				all[i].Quota = min(all[i].Quota, n)
				return
			}
		}
		all = append(all, wantedLimit{quota.KeyLimit{Family: quota.LimitsOfUpstream + u.Name, Key: key, Quota: n, By: "ingestor", Reason: "Anthropic's Rate Limits API tells it"}, "Anthropic's limit of " + key})
	}
	pools := map[string]*book.Pool{}
	for _, p := range u.Pools {
		pools[p.Metric] = p
	}
	for _, group := range told {
		for _, l := range group.Limits {
			metric := cmp.Or(group.GroupType, group.Group.Type) + "/" + l.Type
			switch pool := pools[metric]; {
			case l.Value == nil || *l.Value < 1:
			case pool == nil:
				unknown = append(unknown, metric)
			case pool.By == nil:
				add(pool.Name, *l.Value)
			default:
				for _, model := range group.Models {
					add(pool.Name+":"+keyOfModel(pool, model), *l.Value)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b wantedLimit) int { return cmp.Compare(a.Key, b.Key) })
	return all, slices.Compact(slices.Sorted(slices.Values(unknown))), nil
}

// keyOfModel returns the key of a pool for a call of a model.
func keyOfModel(p *book.Pool, model string) string {
	sources := make([]*book.Source, len(p.By))
	for i := range p.By {
		sources[i] = &p.By[i]
	}
	body, _ := json.Marshal(map[string]string{"model": model}) // a text
	r := content.NewSources(sources...).Read(content.Message{Length: int64(len(body)), Most: int64(len(body)), Header: http.Header{"Content-Type": {"application/json"}}})
	_, _ = r.Write(body) // a reading has no errors
	r.End(true)
	parts := make([]string, len(p.By))
	for i := range parts {
		parts[i], _ = r.Text(i)
	}
	return p.Key(parts)
}
