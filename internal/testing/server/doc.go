// Package server has upstreams that enforce their limits themselves, for tests. They
// know nothing of a ledger. Each counts exactly what it granted, charged and refused,
// so a test can compare that with what the ledger believes.
//
//   - [NewLLM] is a language model in OpenAI's or Anthropic's form.
//   - [NewGitHub] has GitHub's core, search and secondary limits.
//   - [NewGraphQL] is a leaky bucket that refuses with HTTP 200, as Shopify does.
//   - [NewAtOnce] refuses calls beyond a number in flight.
//   - [Spender] spends from a limit of a server without asking anybody else.
package server
