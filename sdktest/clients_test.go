package sdktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-github/v84/github"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/headroom-quota/headroom/internal/testing/server"
)

// The clients are the SDKs as their users configure them. Nothing is changed but the
// http.Client, the address and the number of retries: a retry of the SDK would hide a
// refusal.

// ask is one call of a model.
type ask struct {
	task   server.Task
	most   int64 // max_tokens
	stream bool
	leave  bool // the caller reads one event and closes the body
}

// model calls a model in either form, and returns the tokens that the answer reports.
type model interface {
	ask(ctx context.Context, a ask) (tokens int64, err error)
}

func newModel(f server.Form, client *http.Client, addr string) model {
	if f == server.Anthropic {
		return claude{anthropic.NewClient(anthropicoption.WithHTTPClient(client), anthropicoption.WithBaseURL("http://"+addr),
			anthropicoption.WithAPIKey("sk-ant-test"), anthropicoption.WithMaxRetries(0))}
	}
	return gpt{openai.NewClient(option.WithHTTPClient(client), option.WithBaseURL("http://"+addr+"/v1"),
		option.WithAPIKey("sk-test"), option.WithMaxRetries(0))}
}

// refusedByModel reports whether an error is a server's own refusal.
func refusedByModel(err error) bool {
	var ofOpenAI *openai.Error
	var ofAnthropic *anthropic.Error
	return errors.As(err, &ofOpenAI) && ofOpenAI.StatusCode == http.StatusTooManyRequests ||
		errors.As(err, &ofAnthropic) && ofAnthropic.StatusCode == http.StatusTooManyRequests
}

type gpt struct{ client openai.Client }

func (g gpt) ask(ctx context.Context, a ask) (int64, error) {
	params := openai.ChatCompletionNewParams{
		Model:               "gpt-4o",
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(a.task.String())},
		MaxCompletionTokens: openai.Int(a.most),
	}
	if !a.stream {
		answer, err := g.client.Chat.Completions.New(ctx, params)
		if err != nil {
			return 0, err
		}
		return answer.Usage.TotalTokens, nil
	}
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := g.client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var n int64
	for stream.Next() {
		if a.leave {
			return 0, nil
		}
		n = max(n, stream.Current().Usage.TotalTokens)
	}
	return n, stream.Err()
}

type claude struct{ client anthropic.Client }

func (c claude) ask(ctx context.Context, a ask) (int64, error) {
	params := anthropic.MessageNewParams{
		Model:     "claude-sonnet-4-5",
		MaxTokens: a.most,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(a.task.String()))},
	}
	if !a.stream {
		answer, err := c.client.Messages.New(ctx, params)
		if err != nil {
			return 0, err
		}
		return answer.Usage.InputTokens + answer.Usage.OutputTokens, nil
	}
	stream := c.client.Messages.NewStreaming(ctx, params)
	defer stream.Close()
	var message anthropic.Message
	for stream.Next() {
		if a.leave {
			return 0, nil
		}
		if err := message.Accumulate(stream.Current()); err != nil {
			return 0, err
		}
	}
	return message.Usage.InputTokens + message.Usage.OutputTokens, stream.Err()
}

func newGitHub(client *http.Client, addr string) *github.Client {
	c := github.NewClient(client).WithAuthToken("ghp_test")
	c.BaseURL = &url.URL{Scheme: "http", Host: addr, Path: "/"}
	return c
}

// shop is a client of a GraphQL API as one writes it with net/http.
type shop struct {
	client *http.Client
	addr   string
}

// errThrottled is a refusal with HTTP 200.
type errThrottled struct{ code string }

func (e errThrottled) Error() string { return "graphql: " + e.code }

// products asks for the first products of so many, and returns the actual cost.
func (s shop) products(ctx context.Context, first, found int64, latency string) (cost int64, err error) {
	body, err := json.Marshal(map[string]any{
		"query":     `query($first: Int!) { products(first: $first) { nodes { id } } }`,
		"variables": map[string]any{"first": first, "found": found, "latency": latency},
	})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/admin/api/2026-10/graphql.json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Shopify-Access-Token", "shpat_test")
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Errors []struct {
			Extensions struct{ Code string }
		}
		Extensions struct {
			Cost struct{ ActualQueryCost int64 }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	if len(answer.Errors) > 0 {
		return 0, errThrottled{answer.Errors[0].Extensions.Code}
	}
	return answer.Extensions.Cost.ActualQueryCost, nil
}
