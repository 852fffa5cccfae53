package keys

import (
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// The structs of this file are the price book as it is written: a struct for each
// mapping, and a field for each key. Their tags drive the reader, the printer, the
// JSON Schema and the tables of docs/price-book.md. A new key is a field here, and
// code in package book that uses it. Package book also has bounds, textKinds and
// nameKinds, which some tags name. The tags are:
//
//	yaml      its name
//	doc       its meaning, in plain English; 'word' is a word of the price book
//	example   values that it may have, separated by |
//	required  it must be there; the tag says what to write
//	oneof     exactly one of the keys with this tag must be there; the tag says how to write it
//	default   the value that takes its place if it is missing
//	assumed   the same, but the code behind the reader puts it there
//	range     least..most of a number or a duration; either may be missing, or a name in bounds
//	words     the words that it may be
//	is        what kind of text it is, by its name in textKinds; beside words, either will do
//	size      least..most of its items or entries
//	names     what its entries may be called, by its name in nameKinds
//	noun      what messages call one of its items or entries
//	short     the key that a bare number stands for; "item": an item may stand for the list
//	without   keys that its mappings do not have, though their struct does; or the bare number
//	          that it does not stand for
//	as        what the schema and the reference call such a mapping
//	print     "block": its entries are printed on several lines each
//	alone     a number or a text may stand for the mapping; the field has no key then

// Book is a whole price book.
type Book struct {
	Revision  int64                `yaml:"revision" range:"1..2147483647" example:"4" required:"write revision: 1, and raise it with every change of a window" doc:"Raise it with every change of a window. A book without 'extends' needs it."`
	Extends   []string             `yaml:"extends" is:"builtin" short:"item" size:"1..16" noun:"built-in book" example:"builtin|[builtin, builtin/github]" doc:"The built-in books that this one differs from. 'builtin/youtube-2025' has YouTube's older prices, with one pool for everything."`
	Upstreams map[string]*Upstream `yaml:"upstreams" names:"wide" noun:"upstream" print:"block" doc:"The metered APIs."`
	Families  map[string]*Family   `yaml:"families" names:"wide" noun:"family" print:"block" doc:"Limits per key, for example per client address."`
	Budgets   map[string]*Budget   `yaml:"budgets" names:"narrow" size:"..charges" noun:"budget" print:"block" doc:"Limits in money over several upstreams."`

	Descriptors []Descriptor `yaml:"descriptors" size:"1..1000" noun:"descriptor" doc:"The methods that descriptors of Envoy's rate limit service stand for. The first match counts. A descriptor without a match has no limit."`
}

// Descriptor says which limit a descriptor of Envoy's rate limit service means. Set one of
// Family and Pool.
type Descriptor struct {
	Domain  string   `yaml:"domain" is:"phrase" example:"edge" required:"write that of Envoy's filter, as in domain: edge" doc:"The domain that Envoy's filter sends."`
	Entries []string `yaml:"entries" is:"phrase" size:"1..16" short:"item" noun:"entry" example:"remote_address|[path=/login, remote_address]" required:"write its entries in their order, as in [path=/login, remote_address]" doc:"The entries of the descriptor, in their order. 'path=/login' stands for the entry with this value. 'path' stands for the entry with any value, which becomes the key. Several such values are joined with a comma. An empty value is the key (empty)."`
	Family  string   `yaml:"family" is:"phrase" example:"client" oneof:"family: a family" doc:"The family that is charged."`
	Pool    string   `yaml:"pool" is:"phrase" example:"youtube/units|youtube@staging/units" oneof:"pool: a pool with its upstream" doc:"The pool that is charged. A pool with a page per key is charged for the key."`
}

// Budget is a limit in money. The calls of several upstreams share it.
type Budget struct {
	Quota   string            `yaml:"quota" is:"amount" words:"none" example:"500 USD" required:"write an amount, as in quota: 500 USD" doc:"Required. The money that may be spent in each window. With 'by', it is that of each key. With 'none', only the calls of 'keys' spend the budget."`
	Windows []Window          `yaml:"windows" size:"1..windows" noun:"window" without:"quota|burst|headroom|algorithm|late|in_flight|ttl" as:"budgetWindow" required:"give it at least one, such as {per: month}" doc:"Required. The limits over time. All of them hold."`
	Of      []string          `yaml:"of" is:"phrase" short:"item" size:"1..64" noun:"upstream" example:"openai|[openai, anthropic]" required:"name the upstreams whose calls it pays, as in of: [openai]" doc:"Required. The upstreams whose calls spend it. A call of them that has no 'bill' is refused."`
	By      []Source          `yaml:"by" short:"item" size:"1..4" noun:"key source" as:"keySource" doc:"The source of the key of a call, for a budget per user, team or agent. Each key has the budget for itself. The texts of several sources make one key, with commas between them."`
	MaxKeys int64             `yaml:"max_keys" range:"1..10000000" assumed:"100000" example:"100" doc:"The number of keys that are counted separately. Further keys share one count. It needs 'by'."`
	Keys    map[string]string `yaml:"keys" names:"long" size:"1..100000" is:"amount" noun:"key" example:"{alice: 50 USD}" doc:"Keys with another quota. It needs 'by'."`
	Then    []Step            `yaml:"then" size:"1..8" noun:"step" example:"[{at: 80%, slow: 0.50 USD, per: 1h}]" doc:"What happens to calls before the budget is used up, in rising order. A step holds until the budget is used up."`
}

// Step is what becomes of the calls of a budget once a part of it is spent.
type Step struct {
	At    string `yaml:"at" is:"percent" example:"80%" required:"write the part of the budget, as in at: 80%" doc:"Required. The part of the quota that calls may spend in each window before they pass the step. People are told when it is reached, also by a step that has no other key."`
	Slow  string `yaml:"slow" is:"amount" example:"0.50 USD" doc:"What may be spent in each 'per' by calls that pass the step, all together. What was spent in that time before the step counts, too. A call that may cost more is sent when nothing else was spent in that time. With 'by', each key has it for itself."`
	Per   Span   `yaml:"per" is:"duration" words:"minute|hour|day|week|month" example:"1h" doc:"The window of 'slow': a duration, or a period of the calendar in the zone of the budget."`
	Class string `yaml:"class" is:"phrase" example:"background" doc:"The [class](#class) of calls that pass the step, in place of their own. All upstreams of the budget must have it. Of several steps that were passed, the last one's counts."`
}

// PriceList has the prices of a million of what calls use, such as tokens.
type PriceList struct {
	By       []Source                     `yaml:"by" short:"item" size:"1..4" noun:"key source" as:"keySource" required:"name what the prices depend on, as in by: {body: model}" doc:"Required. The source of the name by which a call's prices are found, such as its model. Of several sources, the texts make one name, with commas between them. A text that is missing is left out."`
	Cases    map[string]map[string]string `yaml:"cases" names:"long" is:"amount" size:"1..10000" noun:"case" example:"{model-x: {input: 1.25 USD, cached: 0.125 USD, output: 10 USD}}" required:"give the prices of each name, as in model-x: {input: 1.25 USD, output: 10 USD}" doc:"Required. The prices of a million, by their names, for each text. A text that ends with '*' stands for all that begin so. The longest that fits counts. Calls of another length, or on later days, may have cases of their own: see below."`
	Length   []string                     `yaml:"length" size:"1..8" noun:"price" example:"[input, cached]" doc:"The prices whose units add up to the length of a call. Cases with 'above' need it."`
	Source   string                       `yaml:"source" is:"phrase" example:"https://llm.example.com/pricing" doc:"Where the prices were read."`
	Verified string                       `yaml:"verified" is:"date" example:"'2026-11-22'" doc:"The day on which somebody last compared them with the source. 'ingestor check' warns after 180 days."`
	Default  string                       `yaml:"default" words:"refuse|dearest" assumed:"refuse" doc:"How to treat a call that no case fits. 'dearest' takes the highest price of each name."`
}

// Bill is what a call costs in money. It is an Amount alone, or it depends on the call.
type Bill struct {
	Amount   string   `alone:"text" is:"amount"`
	Estimate []Source `yaml:"estimate" short:"item" as:"billSource" without:"units|call|time|weight|cases|split|times|learn|first" size:"1..8" noun:"source" required:"write what to reserve, as in {estimate: {body: max_tokens, default: 4096, price: output}}" doc:"Required. What the call uses at most, read from the request. It is multiplied by its price and added up, and the sum is rounded up once."`
	Actual   []Source `yaml:"actual" short:"item" as:"billSource" without:"units|call|time|weight|cases|split|times|learn|first" size:"1..8" noun:"source" doc:"What the call has used, read from the answer. If a value is missing, the estimate stands."`
}

// Upstream is a metered API.
type Upstream struct {
	Source        string              `yaml:"source" is:"phrase" example:"https://maps.example.com/pricing" doc:"Where its limits and prices were read."`
	Verified      string              `yaml:"verified" is:"date" example:"'2026-11-22'" doc:"The day on which somebody last compared this with the source. 'ingestor check' warns after 180 days."`
	Hosts         []string            `yaml:"hosts" is:"host" noun:"host" example:"maps.example.com|maps.example.com:8443|'*.maps.example.com'|www.example.com/maps/" doc:"Requests to these hosts are metered. Write them in lower case. A port may follow, or a path that ends with a slash: then only what is below it is metered. '*' stands for one label."`
	Redirects     []string            `yaml:"redirects" is:"hostname" noun:"host" example:"files.example.net|'*.example.net'" doc:"Other hosts to which the upstream may redirect a call. The redirect is followed without the API key."`
	Addresses     []string            `yaml:"addresses" is:"field" noun:"field" example:"results_url|upload_url" doc:"Fields of answers in JSON that hold addresses of the 'hosts'. 'ingestor proxy' makes them addresses of the proxy, so that SDKs which call them do so through the proxy. It reads answers up to 1 MiB."`
	Mode          string              `yaml:"mode" words:"enforce|observe" assumed:"enforce" doc:"'observe' counts the calls, and lets each one through. An event says what would have been refused."`
	Unpriced      string              `yaml:"unpriced" words:"refuse|admit" default:"refuse" doc:"How to treat a call that has no price."`
	APIKey        APIKey              `yaml:"api_key" as:"apiKey" doc:"Where a request carries the API key."`
	ErrorFormat   string              `yaml:"error_format" words:"google|openai|anthropic|github|graphql|stripe|notion|discord|twitch|salesforce|aws|problem" assumed:"problem" doc:"The form of the errors that its SDKs understand. 'ingestor proxy' refuses calls in this form. 'problem' is that of RFC 9457."`
	Env           string              `yaml:"env" is:"variable" example:"OPENAI_BASE_URL" doc:"The environment variable in which its SDKs look for another address, such as that of 'ingestor proxy'."`
	EnvPath       string              `yaml:"env_path" is:"urlpath" example:"/v1" doc:"The path after the address in that variable."`
	EnvKey        string              `yaml:"env_key" is:"variable" example:"OPENAI_API_KEY" doc:"The environment variable in which its SDKs look for the API key. A program that 'ingestor exec' runs gets its token there."`
	Resumable     string              `yaml:"resumable" is:"param" example:"upload_id" doc:"The parameter that identifies a resumable upload. A request with this parameter and a Content-Range header is a later chunk, and costs nothing."`
	RequestBuffer int64               `yaml:"request_buffer" range:"1..67108864" assumed:"8388608" example:"1048576" doc:"The most bytes of a request's body that are kept in memory, if its price or a key stands in it. A longer body is refused with 413, because the value could stand at its end. The section about bodies of requests has the rule."`
	Free          []FreeAnswer        `yaml:"free" size:"..64" noun:"free answer" doc:"Answers for which the upstream charges nothing. Their calls are settled to nothing."`
	Failed        string              `yaml:"failed" words:"free|charged" assumed:"charged" doc:"Whether the upstream charges for answers with a status of 500 or more."`
	Refusals      []Refusal           `yaml:"refusals" size:"..64" noun:"refusal" doc:"The meaning of the upstream's own refusals. The first match counts."`
	Feedback      []Feedback          `yaml:"feedback" size:"..64" short:"item" noun:"feedback" example:"ietf|[{pool: units, remaining: {header: X-RateLimit-Remaining}}]" doc:"What the upstream's answers report about its limits. Units that the upstream counted outside this ledger are charged as others."`
	Classes       map[string]*Class   `yaml:"classes" names:"wide" noun:"class" doc:"Kinds of callers."`
	Accounts      map[string]*Account `yaml:"accounts" names:"account" noun:"account" words:"any" doc:"The parties whose calls the upstream counts. Without this key there is one, called 'default'. 'any', or an entry '*' beside others, accepts every other account, too."`
	MaxAccounts   int64               `yaml:"max_accounts" range:"1..1000000" assumed:"10000" example:"50000" doc:"The number of accounts that are not listed for which a process keeps separate counts. Further accounts share the count of the account '*', until one of the others was idle for as long as its windows."`
	Account       AccountName         `yaml:"account" doc:"Where a request names its account."`
	Pools         map[string]*Pool    `yaml:"pools" names:"narrow" noun:"pool" print:"block" doc:"The allowances."`
	Methods       map[string]*Method  `yaml:"methods" names:"wide" noun:"method" short:"cost" doc:"The calls and their prices."`
	Prices        *PriceList          `yaml:"prices" doc:"The prices in money of what calls use. The 'bill' of a method names them. They count only if a budget has this upstream."`
	Spill         []string            `yaml:"spill" is:"phrase" short:"item" size:"1..16" noun:"upstream" example:"azure-east|[azure-east, maps@second]" doc:"Where calls go for which the upstream has no units now: the first of these upstreams that has some. A name with '@' is an account. The section about spill has the rules."`
	SpillMethods  []string            `yaml:"spill_methods" is:"phrase" short:"item" size:"1..1000" noun:"method" example:"[chat, embed]" assumed:"all that have a route" doc:"The methods whose calls may spill."`
	NoSpill       string              `yaml:"no_spill" is:"phrase" example:"its terms allow one project for each client, https://maps.example.com/terms" doc:"The reason why its terms forbid that calls spill from it or to it, with the source."`
	Default       map[string]*Method  `yaml:"default" names:"verb" noun:"default" short:"cost" without:"route|upgrade" as:"default" doc:"The prices of calls that no method has, by verb. '*' is any other verb."`
}

// AccountName says where a request names its account. Set one of the fields.
type AccountName struct {
	Host   int64  `yaml:"host" range:"1..10" example:"1" oneof:"host: a label of the host" doc:"The label of the host that names the account: 1 is the first."`
	Header string `yaml:"header" is:"header" example:"X-Org" oneof:"header: a header" doc:"The request's header that names the account."`
}

// APIKey says where a request carries the API key.
type APIKey struct {
	Header string `yaml:"header" is:"header" example:"X-Api-Key" required:"name the one that carries the key, as in {header: X-Api-Key}" doc:"The header that carries the key. The transport sets it, on requests to 'hosts' only."`
	Query  string `yaml:"query" is:"param" example:"key" doc:"The parameter that could carry the key. A URL with this parameter is refused, because URLs appear in errors and logs."`
	Pass   bool   `yaml:"pass" doc:"'ingestor proxy' passes on the key that a program sends, and adds none. The program then sends its token in the header Headroom-Token."`
}

// FreeAnswer is a condition. The upstream charges nothing for an answer that meets it.
type FreeAnswer struct {
	Status []int    `yaml:"status" range:"200..599" size:"1.." short:"item" example:"304" doc:"Condition: the answer has one of these codes."`
	Header Header   `yaml:"header" is:"header" size:"1..1" example:"x-cache|{x-cache: HIT}" doc:"Condition: the answer has this header, or has it with this value."`
	Pools  []string `yaml:"pools" is:"pool" size:"1..charges" short:"item" noun:"pool" assumed:"all pools" example:"core" doc:"The pools in which the answer is free. In the others, the call is charged as any other. 'USD' stands for its 'bill'."`
}

// Refusal says what a refusal by the upstream means. Set conditions, and one of Until, For and
// Credential.
type Refusal struct {
	Status     []int         `yaml:"status" range:"200..599" size:"1.." short:"item" example:"429" required:"write one, as in {status: 429, for: 30s}" doc:"Condition, required: the answer has one of these codes."`
	Header     Header        `yaml:"header" is:"header" size:"1..1" example:"retry-after|{x-ratelimit-remaining: 0}" doc:"Condition: the answer has this header, or has it with this value."`
	Reason     []string      `yaml:"reason" is:"phrase" size:"1.." short:"item" example:"quotaExceeded" doc:"Condition: some member named 'reason' in the JSON body has one of these values."`
	Body       []string      `yaml:"body" is:"phrase" size:"1.." short:"item" example:"daily limit" doc:"Condition: the body contains one of these texts."`
	Pools      []string      `yaml:"pools" is:"pool" size:"1..charges" short:"item" noun:"pool" example:"core" doc:"The pools to block, instead of those of the call. For an upstream that refuses for one of several limits."`
	Pool       PoolName      `yaml:"pool" example:"core|{header: X-RateLimit-Resource}" doc:"The pool to block, if the answer names it. The rule does not match an answer that names no pool."`
	Until      Time          `yaml:"until" oneof:"until: reset, until: a header with the time" example:"x-ratelimit-reset|{header: X-RateLimit-Reset, as: unix}" doc:"Blocks the pools until their next reset, or until the time in the answer. A pool without a calendar window has no reset, and is blocked for an hour. A header alone must have a dash in its name. It may have a time in any form that Retry-After has, or seconds or milliseconds since 1970."`
	For        time.Duration `yaml:"for" range:"1ms..block" oneof:"for: a duration" example:"30s" doc:"Blocks the pools for this long. A Retry-After header takes precedence, and Retry-After-Ms, in milliseconds, over that."`
	Limit      Source        `yaml:"limit" without:"call|price|less|copies" example:"{body: error.details.0.metadata.quota_limit_value}" doc:"The upstream's limit, if the answer names it. It holds like the 'limit' of a feedback, in the pools that are blocked."`
	Credential bool          `yaml:"credential" words:"true" oneof:"credential: true" doc:"The API key is not accepted. No pool is blocked. The caller gets a credential error."`
}

// Time says where an answer has a time. It is a Word alone, "reset" or the name of a header, or a
// place and a form.
type Time struct {
	Word   string `alone:"text" words:"reset" is:"header"`
	Header string `yaml:"header" is:"header" example:"X-RateLimit-Reset" doc:"Where the time stands: in this header."`
	Body   string `yaml:"body" is:"member" example:"error.retry_at" doc:"In this member of the JSON body."`
	JSON   string `yaml:"json" is:"member" example:"estimated_time_to_regain_access" doc:"The text is JSON itself, and the time is this member of it."`
	Match  string `yaml:"match" is:"regexp" example:"'t=([0-9]+)'" doc:"A regular expression (RE2). The time is its first group, or else the whole match."`
	As     string `yaml:"as" words:"unix|unix_ms|seconds|minutes|duration|rfc3339|http_date|retry_after" required:"say how the time is written, as in {header: X-RateLimit-Reset, as: unix}; it is never guessed" doc:"Required. How the time is written: seconds or milliseconds since 1970 ('unix', 'unix_ms'), time to go ('seconds', 'minutes', or a 'duration' such as 6m0s), a date ('rfc3339', 'http_date'), or seconds or a date ('retry_after'). Fractions are accepted. A date counts from the Date header of the answer."`
}

// PoolName is a pool, or says where the answer names one. It is a Name alone, or a place.
type PoolName struct {
	Name   string            `alone:"text" is:"pool"`
	Header string            `yaml:"header" is:"header" example:"X-RateLimit-Resource" doc:"Where the name stands: in this header."`
	Body   string            `yaml:"body" is:"member" example:"error.bucket" doc:"In this member of the JSON body."`
	JSON   string            `yaml:"json" is:"member" example:"resource" doc:"The text is JSON itself, and the name is this member of it."`
	Match  string            `yaml:"match" is:"regexp" example:"'resource=([a-z]+)'" doc:"A regular expression (RE2). The name is its first group, or else the whole match."`
	Names  map[string]string `yaml:"names" is:"pool" size:"1..256" noun:"pool" names:"long" example:"{core: core, code_search: search}" doc:"The pool for each name that the upstream uses. Other names are ignored. Without this key, the names are those of the pools."`
}

// Feedback is what answers report about one pool. It is a Word alone, "ietf" for the standard
// fields, or says where answers report it.
type Feedback struct {
	Word        string   `alone:"text" words:"ietf"`
	Pool        PoolName `yaml:"pool" example:"requests|{header: X-RateLimit-Resource}" required:"name the pool that it is about" doc:"Required. The pool that the answer reports about, or where the answer names it."`
	Limit       Source   `yaml:"limit" without:"call|price|less|copies" doc:"The upstream's limit, in place of the quota. A lower one holds until it has not been reported for the length of the window, at least an hour and at most a day. A larger one holds only if the pool has 'limit: learn', until another one is reported."`
	Remaining   Source   `yaml:"remaining" without:"call|price|less|copies" doc:"The units left of the limit."`
	Used        Source   `yaml:"used" without:"call|price|less|copies" doc:"The units used of the limit. Write it if the upstream does not report 'remaining'."`
	UsedPercent Source   `yaml:"used_percent" without:"call|price|less|copies" doc:"The percentage of the limit that is used. Write it if the upstream reports neither 'remaining' nor 'used'."`
	Reset       Time     `yaml:"reset" doc:"When the upstream's window ends. Units of others count until then. Without it, they count until the end of the calendar period, or for the length of the window."`
	Per         Span     `yaml:"per" is:"duration" words:"minute|hour|day|week|month" example:"1h" doc:"The window of the pool that this is about. Default: its only one, or its longest."`
	Refills     bool     `yaml:"refills" doc:"The upstream keeps a bucket that refills, so its reset moves with every answer. The used units then count from now on."`
	Counts      string   `yaml:"counts" words:"estimate" doc:"The upstream counts what was requested. Units that a call did not use are then not given back to the pool."`
}

// Class is a kind of caller.
type Class struct {
	KeepFree    Share  `yaml:"keep_free" is:"percent" range:"0..units" example:"500|30%" doc:"The part of each window's limit that this class leaves to others. A percentage is rounded up."`
	UseHeadroom bool   `yaml:"use_headroom" doc:"The class may also use the headroom. It cannot have 'keep_free' as well."`
	Share       string `yaml:"share" is:"percent" example:"20%" doc:"The part of the limit that calls of this class get at least, while they wait beside others. See [fair turns](fairness.md)."`
	Priority    int64  `yaml:"priority" range:"0..9" example:"1" doc:"What is no share of another class that waits is for the calls with the highest priority. Calls without a class have 0."`
	Outage      string `yaml:"outage" words:"refuse|admit" doc:"Replaces the 'outage' setting of the method."`
}

// Account is one of the parties whose calls the upstream counts.
type Account struct {
	Pools map[string]*AccountPool `yaml:"pools" names:"narrow" noun:"pool" doc:"The pools for which this account has other limits."`
}

// AccountPool has the limits of one account.
type AccountPool struct {
	Quota    int64  `yaml:"quota" range:"1..units" example:"50000" doc:"The units that the upstream grants this account in a window."`
	Headroom *int64 `yaml:"headroom" range:"0..units" example:"1000" doc:"The part of it that ordinary calls leave free."`
}

// Pool is an allowance.
type Pool struct {
	Example  string          `yaml:"example" is:"phrase" example:"your tier at https://maps.example.com/account" doc:"Says that the quota is an example, and where you find your own."`
	Quota    Quota           `yaml:"quota" doc:"The units that the upstream grants in each window, or 'learn' if nobody publishes them. A bare number is the units."`
	Headroom *int64          `yaml:"headroom" range:"0..units" assumed:"0" example:"500" doc:"The part that ordinary calls leave free. The limit is quota minus headroom."`
	Limit    string          `yaml:"limit" words:"learn" doc:"A limit that an answer reports is used even if it is above the quota, until another one is reported. It needs 'feedback' with a limit, or 'metric'."`
	Metric   string          `yaml:"metric" is:"phrase" example:"youtube.googleapis.com/default" doc:"The name under which the upstream itself counts the pool's units. 'ingestor reconcile' compares that count with the ledger. For Google's APIs, it is the name of the quota metric in Cloud Monitoring."`
	Settle   int64           `yaml:"settle_factor" range:"1..units" assumed:"10" example:"50" doc:"A program over HTTP may settle a call to this many times what it reserved, or to the highest price of a method, whichever is more."`
	Windows  []Window        `yaml:"windows" size:"1..windows" noun:"window" doc:"The limits over time. A call must fit all of them. A pool needs at least one, unless its quota is learned."`
	By       []Source        `yaml:"by" short:"item" size:"1..4" noun:"key source" as:"keySource" without:"units|count|bytes|time|weight|cases|split|per|times|min|max|learn|first|price|less|copies" example:"{body: model, default: other}|[{call: method}, {path: id, default: none}]" doc:"The source of the key of a call, for limits per model or per user. Each key has the pool's limits for itself. The texts of several sources make one key, with commas between them."`
	MaxKeys  int64           `yaml:"max_keys" range:"1..10000000" assumed:"100000" example:"100" doc:"The number of keys that are counted separately, of each account. Further keys share one count. It needs 'by'."`
	Keys     map[string]*Key `yaml:"keys" names:"long" noun:"key" short:"quota" example:"{model-x: 500000}" doc:"Keys with limits of their own. It needs 'by'."`
	Lease    *Lease          `yaml:"lease" doc:"For a pool with very many calls. Each process takes units from the ledger in blocks, and grants calls from them without asking the ledger. It needs windows of kind ring or calendar. To add it, change its life or remove it, raise the revision."`
}

// Quota is what an upstream grants. Set one of the fields.
type Quota struct {
	Units *int64 `alone:"number" range:"1..units"`
	Learn *Rate  `yaml:"learn" required:"write the units, or {learn: {}}" doc:"Nobody publishes the limit. All processes learn together how many units pass in a second, from the calls that the upstream refuses, and send at that rate. 'costs learned' prints what they know. Do not confuse it with 'limit: learn', a limit that answers report, or with 'learn: p95', an estimate of a price."`
}

// Rate bounds a rate that is learned.
type Rate struct {
	From int64 `yaml:"from" range:"1..units" assumed:"2" example:"10" doc:"The units a second that are sent at first. The rate falls to a hundredth of it at most."`
	To   int64 `yaml:"to" range:"1..1000000" assumed:"100000" example:"500" doc:"The units a second that are never exceeded."`
	Obey bool  `yaml:"obey" doc:"Wait each time as long as a refusal asks for. Otherwise such waits are tested before they are believed, because some upstreams name a time that is not true."`
}

// Lease says how processes take units of a pool, or of a key of a family, in blocks.
type Lease struct {
	Life time.Duration `yaml:"life" range:"100ms..1m" assumed:"2s" example:"2s" doc:"The longest time that a process keeps a block. A block or a correction by another process is known after at most this time. The units of a ring count this much longer, rounded up to the precision, because calls leave later than their units were counted."`
	Most Share         `yaml:"most" is:"percent" range:"1..units" assumed:"5%" example:"5%|10000" doc:"The most units that the blocks of one process may have, or a percentage of the smallest limit. Blocks follow the rate of the calls, and shrink as the limit comes near."`
}

// Window is a limit over time. Set either Per or InFlight.
type Window struct {
	Per       Span             `yaml:"per" is:"duration" words:"minute|hour|day|week|month" example:"24h|day" oneof:"per: a duration such as 24h or a word such as day" doc:"Required, but not in a window with 'in_flight'. A duration is a sliding window: the trailing 24 hours. A word is a period of the calendar."`
	Quota     int64            `yaml:"quota" range:"1..units" example:"2000" doc:"A quota of its own, instead of the one that all windows share. A quota above 4294967294 takes a ring twice the memory; to pass that line, either way, raise the revision."`
	Burst     int64            `yaml:"burst" range:"1..units" example:"1000" doc:"The most units of a bucket that can be used at once. 'quota' units return in each 'per'. Headroom is taken off the burst. Default: the quota."`
	Headroom  *int64           `yaml:"headroom" range:"0..units" example:"100" doc:"A headroom of its own. A window with its own quota has 0 unless you set it."`
	Algorithm window.Algorithm `yaml:"algorithm" words:"ring|log|counter|bucket" assumed:"ring" doc:"How a sliding window counts. 'ring' is never over its limit, 'log' is exact, 'counter' is an estimate and needs the least memory; its quota is at most 4294967296. 'bucket' is for upstreams that use a token or leaky bucket: it drains all the time, and may let through a burst and a quota within one 'per'."`
	Precision time.Duration    `yaml:"precision" range:"100us.." example:"5m" doc:"The length of one bucket of a ring: how late units may come back. Default: a 1440th of 'per', but at least 1s and at most a tenth of 'per'. It must divide 'per'."`
	Late      time.Duration    `yaml:"late" range:"0s.." example:"2s" doc:"The units of a ring count this much longer, rounded up to the precision. Use it for calls that reach the upstream late. It costs throughput: a ring sustains per/(per + precision + late) of its quota."`
	Zone      string           `yaml:"zone" is:"zone" assumed:"UTC" example:"America/Los_Angeles" doc:"The time zone of a calendar period."`
	Lag       *time.Duration   `yaml:"lag" range:"0s.." assumed:"1m" example:"2m" doc:"A charge this close to the boundary of a calendar period counts in both periods. For 'per: minute', the default is 1s."`
	InFlight  int64            `yaml:"in_flight" range:"1..units" oneof:"in_flight: the number of calls at once" example:"10" doc:"The number of calls in flight at once, over all processes. A call takes a slot, and gives it back when it has ended. A refusal says to come again after the time that recent calls took. It must be the only window of its pool."`
	TTL       time.Duration    `yaml:"ttl" range:"1s..1h" assumed:"2m" example:"30s" doc:"How long a slot of 'in_flight' counts after its process has crashed. While the process lives, it renews the slot. A caller that neither reads nor closes the body of an answer for so long has lost it."`
}

// Method is a call and its price. Set Pool and Cost, or Charge for several pools.
type Method struct {
	Route  []string          `yaml:"route" is:"route" short:"item" example:"GET /v1/places/{id}" doc:"How the call looks in HTTP. Braces match one segment: '/users/{id}', or at the end all that is left: '/files/{rest...}'. '*' is any verb. Needed only for metering over HTTP."`
	Pool   string            `yaml:"pool" is:"pool" example:"units" doc:"The pool that the call charges."`
	Cost   *Price            `yaml:"cost" doc:"The units that one call costs. 0 is free."`
	Charge map[string]*Price `yaml:"charge" size:"1..charges" noun:"pool" names:"narrow" example:"{units: 5, searches: 1}" doc:"For a call that charges several pools. It replaces 'pool' and 'cost'."`
	Bill   *Bill             `yaml:"bill" example:"0.01 USD|{estimate: {body: max_tokens, default: 4096, price: output}}" doc:"What the call costs in money, for [budgets](#budget) that have its upstream. '0 USD' is free."`
	Outage string            `yaml:"outage" words:"refuse|admit" default:"refuse" doc:"How to treat the call while the ledger cannot be reached."`
	Source string            `yaml:"source" is:"phrase" example:"price list of 2026-06" doc:"Where the price comes from."`

	Upgrade bool `yaml:"upgrade" doc:"The call may become a WebSocket, as that of a realtime API. Its price is that of the handshake, and its slots of 'in_flight' are taken until the connection ends. Without it, 'ingestor proxy' refuses a WebSocket."`
}

// Price is what a call costs. It is a Fixed number of units alone, which [Units] returns, or it
// depends on the request and the answer.
type Price struct {
	Fixed    *int64   `alone:"units" range:"0..units"`
	Estimate []Source `yaml:"estimate" without:"call|price|less|copies" short:"item" size:"1..8" noun:"source" required:"write what to reserve, as in {estimate: {body: max_tokens, default: 4096}}" doc:"The units to reserve before the call, read from the request. Several sources are added up. It never asks for more than the smallest limit of the pool."`
	Actual   []Source `yaml:"actual" without:"call|price|less|copies" short:"item" size:"1..8" noun:"source" doc:"The real cost of the call, read from the answer. The last value of a stream counts. Several sources are added up. If one is missing, the estimate stands."`
	Counted  string   `yaml:"counted" words:"start|end" assumed:"start" doc:"When the upstream counts the call: when it starts, or when its answer ends."`
}

// Source is a Number alone, or says where a request or an answer has a value.
type Source struct {
	Number  *int64           `alone:"units" range:"0..units"`
	Header  string           `yaml:"header" is:"header" example:"X-Request-Units" doc:"Where the value stands: in this header."`
	Query   string           `yaml:"query" is:"param" example:"maxResults" doc:"In this parameter of the URL. Only a request has one."`
	Path    string           `yaml:"path" is:"segment" example:"id" doc:"In the segment that the route calls '{id}'. Only a request has one."`
	Body    string           `yaml:"body" is:"member" example:"usage.input_tokens|errors.0.code" doc:"In this member of the JSON body. A number is a place in an array. A vertical bar stands between alternatives: of those that the body has, the last one counts, and of prices in a request the largest."`
	Count   string           `yaml:"count" is:"member" example:"data" doc:"The length of this array of the JSON body."`
	Bytes   string           `yaml:"bytes" words:"body" doc:"The length of the body in bytes."`
	Time    string           `yaml:"time" words:"call" doc:"The milliseconds between sending the call and the end of its answer. For actual costs only."`
	Call    string           `yaml:"call" words:"method|caller" doc:"'method' is the name of the call's method in this book. 'caller' is the name of the token that makes the call, or else of its job: what stands before the first slash of the job. So each method or caller has limits of its own."`
	JSON    string           `yaml:"json" is:"member" example:"call_count" doc:"The text is JSON itself, and the value is this member of it."`
	Match   string           `yaml:"match" is:"regexp" example:"'api-usage=([0-9]+)/'" doc:"A regular expression (RE2). The value is its first group, or else the whole match."`
	Cases   map[string]int64 `yaml:"cases" range:"0..units" size:"1..256" noun:"case" example:"{snippet: 2, id: 0}" doc:"The number that each text stands for."`
	Split   string           `yaml:"split" is:"phrase" example:"','" doc:"The text between several values. Their cases are added up. It needs 'cases'."`
	Per     int64            `yaml:"per" range:"1..units" assumed:"1" example:"50" doc:"The number is divided by this, and rounded up."`
	Times   int64            `yaml:"times" range:"1..units" assumed:"1" example:"10" doc:"Then it is multiplied by this."`
	Min     int64            `yaml:"min" range:"0..units" example:"1" doc:"The least that the result may be."`
	Max     *int64           `yaml:"max" range:"0..units" example:"50" doc:"The most that it may be."`
	Default Fallback         `yaml:"default" is:"phrase" range:"0..units" example:"4096|other" doc:"The value to use if it is missing or cannot be read. An estimate needs a number, or 'first'. A name may have a text."`
	Weight  *Source          `yaml:"weight" example:"{path: model, cases: {model-x: 5}, default: 1}" doc:"For prices only. The result is multiplied by this value of the request, also if it is the 'default'."`
	Learn   string           `yaml:"learn" words:"p50|p75|p90|p95|p99" doc:"For estimates only. It reserves as much as this share of the method's recent calls needed, of all processes, and at most the value itself. It needs 'actual'."`
	First   *int64           `yaml:"first" range:"0..units" example:"2000" doc:"The units to reserve until enough calls were seen. It needs 'learn'."`

	Price  string `yaml:"price" is:"phrase" example:"output" doc:"Required. The price of a million of them, by its name in 'prices'."`
	Less   string `yaml:"less" is:"member" example:"usage.prompt_tokens_details.cached_tokens" doc:"The number in this member of the JSON body is taken off, if the body has it."`
	Copies string `yaml:"copies" is:"member" example:"n" doc:"The value is multiplied by the number in this member of the JSON body, if the body has it."`
}

// Family is a limit for each key, without a list of the keys.
type Family struct {
	Quota   int64           `yaml:"quota" range:"1..units" example:"60" doc:"The units that one key may spend in a window."`
	Windows []Window        `yaml:"windows" size:"1..windows" noun:"window" without:"headroom|in_flight|ttl" as:"familyWindow" required:"give it at least one, such as {per: 1m, quota: 60}" doc:"The limits over time. All of them hold."`
	MaxKeys Most            `yaml:"max_keys" range:"1..10000000" is:"none" default:"100000" example:"50000" doc:"The number of keys that are counted separately. Further keys share one count. 'none' is for keys that are bounded elsewhere: each takes memory for a window after its last call."`
	Keys    map[string]*Key `yaml:"keys" names:"long" noun:"key" short:"quota" doc:"Keys with limits of their own."`
	Lease   *Lease          `yaml:"lease" doc:"For keys with very many calls. A process takes units of such a key in blocks, as of a pool with 'lease'. Other keys cost what they cost without it."`
}

// Key has the limits of one key.
type Key struct {
	Quota   int64    `yaml:"quota" range:"1..units" example:"6000" doc:"The units that this key may spend in a window."`
	Windows []Window `yaml:"windows" size:"1..windows" noun:"window" without:"headroom|in_flight|ttl" as:"familyWindow" doc:"Windows of its own, instead of those of the family or pool."`
}

// Span is a duration such as "24h", or a period of the calendar such as "day".
type Span string

// Every returns the span of a duration.
func Every(d time.Duration) Span { return Span(d.String()) }

// Most is the largest number of something, or [None].
type Most int64

// None means that there is no largest number.
const None Most = -1

// Share is a number of units, or a part in percent. Set one of them.
type Share struct{ Units, Percent int64 }

// Header is a header that an answer has. If there is a value, the header must have it.
type Header struct{ Name, Value string }

// Fallback takes the place of a value that is missing: a number, or a text where a name is
// wanted. [Number] and [Text] make one.
type Fallback struct {
	Number *int64
	Text   string
}

// Number returns a fallback that is a number, as in Default: keys.Number(4096).
func Number(n int64) Fallback { return Fallback{Number: &n} }

// Text returns a fallback that is a name, as in Default: keys.Text("other").
func Text(name string) Fallback { return Fallback{Text: name} }

// Units returns a fixed price, as in Cost: keys.Units(5). The price 0 is free.
func Units(n int64) *Price { return &Price{Fixed: &n} }

// Each returns a quota in units, as in Quota: keys.Each(10000).
func Each(units int64) Quota { return Quota{Units: &units} }
