package sdktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-github/v84/github"

	"github.com/headroom-quota/headroom/internal/testing/server"
)

// repositories has GitHub's limits, all at once: core, search and the secondary ones.
func repositories(t *testing.T, figures *table) {
	synctest.Test(t, func(t *testing.T) {
		span := pick(3*time.Minute, 10*time.Minute)
		s := server.NewGitHub(server.GitHubOptions{Latency: 300 * time.Millisecond})
		n := newNetwork()
		addr := n.serve(t, s)
		fleet := newFleet(t, parse(t, githubBook, addr), 2, func() http.RoundTripper { return n.transport(t) })
		var points int64
		load{callers: 64, span: span, call: func(ctx context.Context, p *process, r *rand.Rand) error {
			err := callGitHub(ctx, newGitHub(p.client, addr), r)
			var secondary *github.AbuseRateLimitError
			if errors.As(err, &secondary) {
				return nil // the server counts it
			}
			var held *github.RateLimitError
			if errors.As(err, &held) { // the client itself sends nothing, not even what is free, once an answer has said that none is left
				time.Sleep(100 * time.Millisecond)
				return nil
			}
			return err
		}}.drive(t, fleet, func() { points = s.Counts().Charged["points"] })
		time.Sleep(5 * time.Second)
		c := s.Counts()
		for _, limit := range []string{"core", "search", "points", "at_once"} {
			figures.zero(t, "github: refusals by "+limit, int64(c.Refused[limit]))
		}
		figures.least(t, "github: share of the oracle's points", float64(points)/float64(server.Limit{Kind: server.Fixed, Lazy: true, Quota: 900, Per: time.Minute}.Oracle(span)), 0.93)
		ours, _ := fleet[0].spent(t, "github")
		for _, pool := range []string{"core", "search", "points"} {
			figures.zero(t, "github: "+pool+" in the ledger less in the server", ours[pool]-c.Charged[pool])
		}
		if c.NotModified == 0 {
			t.Error("no call was conditional")
		}
	})
}

// callGitHub makes one call of a mixture.
func callGitHub(ctx context.Context, client *github.Client, r *rand.Rand) error {
	repo := "r" + strconv.Itoa(r.IntN(1000))
	switch n := r.IntN(100); {
	case n < 3:
		_, _, err := client.Search.Issues(ctx, "is:open "+repo, nil)
		return err
	case n < 10:
		_, _, err := client.Issues.Create(ctx, "o", repo, &github.IssueRequest{Title: github.Ptr("one")})
		return err
	case n < 50:
		_, resp, err := client.Repositories.Get(ctx, "o", repo)
		if err != nil {
			return err
		}
		req, err := client.NewRequest(http.MethodGet, "repos/o/"+repo, nil)
		if err != nil {
			return err
		}
		req.Header.Set("If-None-Match", resp.Header.Get("Etag"))
		resp, err = client.Do(ctx, req, nil)
		if resp == nil || resp.StatusCode != http.StatusNotModified {
			return errors.Join(errors.New("conditional"), err)
		}
		return nil
	}
	_, _, err := client.Issues.ListByRepo(ctx, "o", repo, nil)
	return err
}
