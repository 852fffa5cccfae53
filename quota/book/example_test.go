package book_test

import (
	"fmt"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/book/keys"
)

// A program writes the price book of an LLM as structs. The cost of a call depends on its
// content: tokens are reserved by an estimate, and settled to what the answer reports.
func ExampleMake() {
	perMinute := []keys.Window{{Per: "1m"}}
	llm := &keys.Upstream{
		Hosts:  []string{"api.anthropic.com"},
		APIKey: keys.APIKey{Header: "X-Api-Key"},
		Pools: map[string]*keys.Pool{
			"requests":      {Quota: keys.Each(1000), Windows: perMinute},
			"input_tokens":  {Quota: keys.Each(400_000), Headroom: new(int64(20_000)), Windows: perMinute},
			"output_tokens": {Quota: keys.Each(80_000), Windows: perMinute},
		},
		Methods: map[string]*keys.Method{
			"messages.create": {
				Route: []string{"POST /v1/messages"},
				Charge: map[string]*keys.Price{
					"requests": keys.Units(1),
					"input_tokens": {
						Estimate: []keys.Source{{Bytes: "body", Per: 4}},
						Actual:   []keys.Source{{Body: "usage.input_tokens"}, {Body: "usage.cache_creation_input_tokens", Default: keys.Number(0)}},
					},
					"output_tokens": {
						Estimate: []keys.Source{{Body: "max_tokens", Default: keys.Number(4096)}},
						Actual:   []keys.Source{{Body: "usage.output_tokens"}},
					},
				},
			},
		},
		Refusals: []keys.Refusal{{Status: []int{429, 529}, Until: keys.Time{Word: "retry-after"}}},
	}
	b, err := book.Make(&keys.Book{Revision: 1, Upstreams: map[string]*keys.Upstream{"anthropic": llm}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := b.Match("POST", "api.anthropic.com", "/v1/messages").Method
	fmt.Println(m.Charges["requests"], "request")
	fmt.Println("output tokens:", m.Prices["output_tokens"])
	// Output:
	// 1 request
	// output tokens: reserves max_tokens, or 4096 if it is missing; settles to usage.output_tokens
}

// The same checks apply as to a file. An error shows the line of the book as YAML.
func ExampleMake_error() {
	_, err := book.Make(&keys.Book{
		Revision: 1,
		Upstreams: map[string]*keys.Upstream{"maps": {
			Pools:   map[string]*keys.Pool{"units": {Quota: keys.Each(100), Windows: []keys.Window{{Per: "24h"}}}},
			Methods: map[string]*keys.Method{"search": {Pool: "unit", Cost: keys.Units(5)}},
		}},
	}, nil)
	fmt.Println(err)
	// Output:
	// book.Make:10:22: method "search" charges pool "unit", which does not exist; did you mean "units"?
	//    10 |       search: {pool: unit, cost: 5}
	//       |                      ^
}
