package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
)

// One budget for the SDKs of two providers. All programs that name the ledger share it.
func Example_budget() {
	os.Setenv("OPENAI_API_KEY", "sk-test")
	os.Setenv("ANTHROPIC_API_KEY", "sk-ant-test")
	folder, err := os.MkdirTemp("", "budget")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	costs, ledger, ctx := filepath.Join(folder, "costs.yaml"), "sqlite:"+filepath.Join(folder, "ledger.db"), context.Background()
	if err := os.WriteFile(costs, []byte(`
extends: [builtin/openai-prices, builtin/anthropic-prices]
budgets: {all: {quota: 0.05 USD, windows: [{per: month}], of: [openai, anthropic]}}
`), 0o600); err != nil {
		log.Fatal(err)
	}

	client, opened, err := open.Client(ctx, ledger, headroom.File(costs), &meter.Options{Base: providers{}})
	if err != nil {
		log.Fatal(err)
	}
	defer opened.Close()
	gpt := openai.NewClient(option.WithHTTPClient(client), option.WithMaxRetries(0))
	claude := anthropic.NewClient(anthropicoption.WithHTTPClient(client), anthropicoption.WithMaxRetries(0))

	answer, err := gpt.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: "gpt-6.2-sol", MaxCompletionTokens: openai.Int(1000),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Name the largest moons of Jupiter.")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Choices[0].Message.Content)
	for range 3 {
		_, err = claude.Messages.New(ctx, anthropic.MessageNewParams{
			Model: "claude-opus-5-5", MaxTokens: 1000,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("And those of Saturn?"))},
		})
		var refused *quota.RefusedError
		if errors.As(err, &refused) {
			fmt.Println("refused:", refused.Pool) // refused.RetryAt is when the month ends
		}
	}
	usage, err := opened.Ledger.View().Usage(ctx, book.Budgets, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("spent:", book.FormatMoney(usage[0].Windows[0].Used))
	// Output:
	// Ganymede, Callisto, Io and Europa.
	// refused: budgets/all
	// spent: 0.044156 USD
}

// providers answer as OpenAI and Anthropic do.
type providers struct{}

func (providers) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-6.2-sol","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Ganymede, Callisto, Io and Europa."}}],"usage":{"prompt_tokens":14,"completion_tokens":800,"total_tokens":814}}`
	if r.URL.Host == "api.anthropic.com" {
		body = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","stop_reason":"end_turn","content":[{"type":"text","text":"Titan and Rhea."}],"usage":{"input_tokens":16,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":900}}`
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}
