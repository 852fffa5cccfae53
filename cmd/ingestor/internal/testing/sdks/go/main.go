// Command go lets public SDKs for Go make calls for run.mjs, which has the proxy and the upstreams.
//
//	go list
//	go call BOOK ADDRESS TOKEN CALL
//
// The call "refused" succeeds if the SDK makes its own error of a refusal.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"time"
)

// sdk is one SDK: its module, and its calls.
type sdk struct {
	module string
	calls  func(base, token string) []call
}

// call is one call. Requests is how many it sends.
type call struct {
	name     string
	requests int
	run      func(ctx context.Context) error
}

const refused = "refused"

var sdks = map[string]sdk{
	"anthropic": {"github.com/anthropics/anthropic-sdk-go", anthropicCalls},
	"bedrock":   {"github.com/aws/aws-sdk-go-v2/service/bedrockruntime", bedrockCalls},
	"gemini":    {"google.golang.org/genai", geminiCalls},
	"github":    {"github.com/google/go-github/v84", githubCalls},
	"openai":    {"github.com/openai/openai-go/v3", openaiCalls},
	"slack":     {"github.com/slack-go/slack", slackCalls},
	"stripe":    {"github.com/stripe/stripe-go/v84", stripeCalls},
	"youtube":   {"google.golang.org/api", youtubeCalls},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "list" {
		return list()
	}
	if len(args) != 5 || args[0] != "call" {
		return fmt.Errorf("usage: go list | go call BOOK ADDRESS TOKEN CALL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	calls := sdks[args[1]].calls(args[2], args[3])
	i := slices.IndexFunc(calls, func(c call) bool { return c.name == args[4] })
	return calls[i].run(ctx)
}

// list prints the SDKs, their versions and their calls.
func list() error {
	type entry struct {
		SDK   string  `json:"sdk"`
		Calls [][]any `json:"calls"`
	}
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
	all := map[string]entry{}
	for book, s := range sdks {
		e := entry{SDK: s.module + " " + versions[s.module]}
		for _, c := range s.calls("http://127.0.0.1", "token") {
			if c.name != refused {
				e.Calls = append(e.Calls, []any{c.name, c.requests})
			}
		}
		all[book] = e
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// same returns an error if a call failed, or its answer is another one.
func same[T comparable](got, want T, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("got %v, want %v", got, want)
	}
	return err
}

// no returns an error unless a call was refused with an error of the SDK's own type.
func no(err error, own bool) error {
	if own {
		return nil
	}
	return fmt.Errorf("the SDK made this of a refusal: %T: %v", err, err)
}

// bearer is a transport that sends a token.
type bearer string

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(req)
}
