package sdktest

import "strings"

// The price books, as a user would write them for these upstreams. The tests replace
// words in capitals.

// openaiBook is for OpenAI's form. COUNTED says when a call counts.
const openaiBook = `
revision: 1
upstreams:
  llm:
    hosts: [HOST]
    api_key: {header: Authorization}
    refusals: [{status: 429, for: 1s}]
    free: [{status: 429}]
    pools:
      requests: {quota: 100000, windows: [{per: 1m}]}
      tokens: {quota: QUOTA, headroom: HEADROOM, windows: [WINDOW]}
    methods:
      chat.completions:
        route: POST /v1/chat/completions
        charge:
          requests: 1
          tokens:
            estimate: OPENAI
            actual: {body: usage.total_tokens}
            counted: COUNTED
FEEDBACK`

// anthropicBook is for Anthropic's form.
const anthropicBook = `
revision: 1
upstreams:
  llm:
    hosts: [HOST]
    api_key: {header: X-Api-Key}
    refusals: [{status: 429, for: 1s}]
    free: [{status: 429}]
    pools:
      requests: {quota: 100000, windows: [{per: 1m}]}
      input_tokens: {quota: 1000000, windows: [{per: 1m}]}
      output_tokens: {quota: QUOTA, headroom: HEADROOM, windows: [WINDOW]}
    methods:
      messages:
        route: POST /v1/messages
        charge:
          requests: 1
          input_tokens:
            estimate: {bytes: body, per: 4}
            actual: {body: usage.input_tokens|message.usage.input_tokens}
          output_tokens:
            estimate: ESTIMATE
            actual: {body: usage.output_tokens}
            counted: COUNTED
FEEDBACK`

// openaiFeedback reads the tokens that are left.
const openaiFeedback = `
    feedback:
      - pool: tokens
        limit: {header: X-Ratelimit-Limit-Tokens}
        remaining: {header: X-Ratelimit-Remaining-Tokens}
        reset: {header: X-Ratelimit-Reset-Tokens, as: duration}
`

// anthropicFeedback reads the output tokens that are left.
const anthropicFeedback = `
    feedback:
      - pool: output_tokens
        limit: {header: Anthropic-Ratelimit-Output-Tokens-Limit}
        remaining: {header: Anthropic-Ratelimit-Output-Tokens-Remaining}
        reset: {header: Anthropic-Ratelimit-Output-Tokens-Reset, as: rfc3339}
`

// fill replaces words in a book: "QUOTA", "1000", ... Other words keep their default.
func fill(text string, words ...string) string {
	words = append(words,
		"HEADROOM", "0", "WINDOW", "{per: 1m}", "COUNTED", "start", "FEEDBACK", "",
		"OPENAI", "[{bytes: body, per: 4}, {body: max_completion_tokens, default: 4096}]",
		"ESTIMATE", "{body: max_tokens, default: 4096}")
	return strings.NewReplacer(words...).Replace(text)
}

const shopBook = `
revision: 1
upstreams:
  shop:
    hosts: [HOST]
    refusals: [{status: 200, body: '"code":"THROTTLED"', for: 1s}]
    pools:
      points: {quota: 50, windows: [{per: 1s, algorithm: bucket, burst: 1000}]}
    methods:
      graphql:
        route: "POST /admin/api/{version}/graphql.json"
        charge:
          points:
            estimate: [2, {body: variables.first, times: 2, default: 500}]
            actual: {body: extensions.cost.actualQueryCost}
`

const slotsBook = `
revision: 1
upstreams:
  api:
    hosts: [HOST]
    pools: {calls: {windows: [{in_flight: 10, ttl: TTL}]}}
    methods: {get: {route: GET /, charge: {calls: 1}}}
`

const githubBook = `
revision: 1
upstreams:
  github:
    hosts: [HOST]
    free:
      - {status: 304, pools: [core, search]}
      - {status: [403, 429]}
    refusals:
      - {status: [403, 429], header: {X-Ratelimit-Remaining: 0}, until: X-Ratelimit-Reset}
      - {status: [403, 429], for: 1m}
    pools:
      core: {quota: 5000, windows: [{per: 1h}]}
      search: {quota: 30, windows: [{per: 1m}]}
      points: {quota: 900, windows: [{per: 1m}]}
      at_once: {windows: [{in_flight: 100, ttl: 2m}]}
    methods:
      search.issues: {route: GET /search/issues, charge: {search: 1, points: 1, at_once: 1}}
      repos.get: {route: "GET /repos/{owner}/{repo}", charge: {core: 1, points: 1, at_once: 1}}
      issues.list: {route: "GET /repos/{owner}/{repo}/issues", charge: {core: 1, points: 1, at_once: 1}}
      issues.create: {route: "POST /repos/{owner}/{repo}/issues", charge: {core: 1, points: 5, at_once: 1}}
`
