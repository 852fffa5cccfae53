package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

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
