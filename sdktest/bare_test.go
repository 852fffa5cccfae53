package sdktest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-github/v84/github"
	"github.com/openai/openai-go/v3"

	"github.com/headroom-quota/headroom/internal/testing/server"
)

// Without a ledger the servers refuse, and each SDK reads the refusal as its upstream's.
func TestBareModels(t *testing.T) {
	for _, form := range []server.Form{server.OpenAI, server.Anthropic} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				limit := server.Limit{Kind: server.Sliding, Quota: 2000, Per: time.Minute}
				requests := server.Limit{Kind: server.Sliding, Quota: 100, Per: time.Minute}
				o := server.LLMOptions{Form: form, Requests: requests, Tokens: limit}
				if form == server.Anthropic {
					o = server.LLMOptions{Form: form, Requests: requests, Input: limit, Output: limit}
				}
				s := server.NewLLM(o)
				n := newNetwork()
				m := newModel(form, &http.Client{Transport: n.transport(t)}, n.serve(t, s))
				var used, refused atomic.Int64
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						got, err := m.ask(t.Context(), ask{task: server.Task{Output: 200, Latency: 2 * time.Second}, most: 300, stream: stream})
						used.Add(got)
						var theirs *openai.Error
						var their *anthropic.Error
						switch {
						case errors.As(err, &theirs) && theirs.StatusCode == 429 && theirs.Code == "rate_limit_exceeded":
							refused.Add(1)
						case errors.As(err, &their) && their.StatusCode == 429:
							refused.Add(1)
						case err != nil:
							t.Error(err)
						}
					})
				}
				begun := time.Now()
				wg.Wait()
				c := s.Counts()
				if c.Refused == 0 || c.Granted == 0 || int64(c.Refused) != refused.Load() || c.Granted+c.Refused != 20 {
					t.Errorf("%+v, and the SDK saw %d refusals", c, refused.Load())
				}
				if used.Load() != c.Used || c.Used != c.Charged["tokens"]+c.Charged["input_tokens"]+c.Charged["output_tokens"] {
					t.Errorf("the SDK read %d tokens, the server counted %+v", used.Load(), c)
				}
				if took := time.Since(begun); took != 2*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}

func TestBareGitHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.NewGitHub(server.GitHubOptions{Latency: 200 * time.Millisecond, AtOnce: 10})
		n := newNetwork()
		addr := n.serve(t, s)
		client := newGitHub(&http.Client{Transport: n.transport(t)}, addr)
		another := newGitHub(&http.Client{Transport: n.transport(t)}, addr) // does not know what this one was told
		ctx := t.Context()

		_, resp, err := client.Repositories.Get(ctx, "o", "r")
		if err != nil || resp.Rate.Limit != 5000 || resp.Rate.Remaining != 4999 {
			t.Fatalf("%v, %+v", err, resp)
		}
		etag := resp.Header.Get("Etag")
		req, _ := client.NewRequest(http.MethodGet, "repos/o/r", nil)
		req.Header.Set("If-None-Match", etag)
		if resp, _ := client.Do(ctx, req, nil); resp == nil || resp.StatusCode != http.StatusNotModified || resp.Rate.Remaining != 4999 {
			t.Errorf("conditional: %+v", resp)
		}
		for range 30 {
			if _, _, err := client.Search.Issues(ctx, "is:open", nil); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err = another.Search.Issues(ctx, "is:open", nil)
		var limited *github.RateLimitError
		if !errors.As(err, &limited) || limited.Rate.Resource != "search" {
			t.Errorf("search: %v", err)
		}
		var wg sync.WaitGroup
		for range 11 {
			wg.Go(func() {
				_, _, err := client.Issues.Create(ctx, "o", "r", &github.IssueRequest{Title: github.Ptr("one")})
				var abuse *github.AbuseRateLimitError
				if err != nil && !errors.As(err, &abuse) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c := s.Counts()
		if c.Refused["search"] != 1 || c.Refused["at_once"] != 1 || c.NotModified != 1 || c.Most != 10 {
			t.Errorf("%+v", c)
		}
		if c.Charged["core"] != 11 || c.Charged["search"] != 30 || c.Charged["points"] != 1+1+30+50 {
			t.Errorf("charged %v", c.Charged)
		}
	})
}

func TestBareGraphQL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.NewGraphQL(server.Limit{Kind: server.Bucket, Quota: 50, Per: time.Second, Burst: 1000}, nil)
		n := newNetwork()
		client := shop{&http.Client{Transport: n.transport(t)}, n.serve(t, s)}
		var cost int64
		var throttled int
		for range 12 {
			got, err := client.products(t.Context(), 100, 49, "0s")
			var no errThrottled
			switch {
			case errors.As(err, &no) && no.code == "THROTTLED":
				throttled++
			case err != nil:
				t.Fatal(err)
			}
			cost += got
		}
		if c := s.Counts(); throttled != 4 || c.Refused != 4 || c.Charged != cost || cost != 800 {
			t.Errorf("%d throttled, cost %d, %+v", throttled, cost, c)
		}
		time.Sleep(3 * time.Second)
		if _, err := client.products(t.Context(), 100, 49, "0s"); err != nil {
			t.Errorf("after 3 s: %v", err)
		}
	})
}

func TestBareAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server.AtOnce{Most: 10}
		n := newNetwork()
		client, addr := &http.Client{Transport: n.transport(t)}, n.serve(t, s)
		var wg sync.WaitGroup
		for range 11 {
			wg.Go(func() {
				resp, err := client.Get("http://" + addr + "/?latency=1s")
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			})
		}
		wg.Wait()
		if c := s.Counts(); c.Granted != 10 || c.Refused != 1 || c.Worst != 10 {
			t.Errorf("%+v", c)
		}
	})
}

// Another program that shares the key takes its share at the server.
func TestBareSpender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.NewLLM(server.LLMOptions{Tokens: server.Limit{Kind: server.Fixed, Quota: 1000, Per: time.Minute}})
		other := &server.Spender{Take: func(n int64) bool { return s.Take("tokens", n) }, Burst: 20, Every: 4 * time.Second}
		ctx, stop := context.WithTimeout(t.Context(), 599*time.Second)
		defer stop()
		other.Run(ctx)
		if took, refused := other.Took(); took != 149*20 || refused != 0 || s.Counts().Charged["tokens"] != took {
			t.Errorf("took %d, refused %d, charged %v", took, refused, s.Counts().Charged)
		}
	})
}
