package book

import (
	"regexp"
	"time"
)

// Price is what a call charges a pool, if that depends on the call.
type Price struct {
	Estimate []Source // added up: what is reserved before the call; empty with Learn alone
	Learn    *Learn   // reserve by the recent cost of the method's calls; Estimate is then the most
	Actual   []Source // added up: what the call has cost, by its answer; nil: the estimate stands
	AtEnd    bool     // the upstream counts the call when it ends
}

// Learn reserves what a share of the recent calls of a method stayed within.
type Learn struct {
	Percent int   // the share: 95
	First   int64 // reserved until enough calls were seen; 0: the Estimate
}

// Source is a number, or where one stands in a request or an answer. Exactly one of its
// first fields is set; none of them is the number itself.
type Source struct {
	Header string // a header
	Query  string // a parameter of the URL
	Path   string // a {name} of the method's route
	Body   string // a member of the JSON body: usage.input_tokens; a | stands between alternatives
	Count  string // an array of the JSON body: its length
	Bytes  bool   // the length of the body
	Call   bool   // the name of the method, for a key
	Caller bool   // the name of the caller, for a key; see [CallerOf]
	Number int64

	JSON  string           // the text is JSON: this member of it
	Match *regexp.Regexp   // the text has this in it: its first group, or all of the match
	Cases map[string]int64 // the number that stands for the text
	Split string           // between parts of the text, whose cases are added up; "" is one part

	Per, Times int64  // the number is divided by Per, rounded up, and then multiplied by Times; both are at least 1
	Min, Max   int64  // bounds of the result; Max is at most window.MaxUnits
	Default    *int64 // the result if the source is missing or cannot be read; nil: no default

	DefaultText string // the same for a source whose text is a name

	Price string // of a bill: the name of its price
	Role  Role   // of a bill: what it does to the source before it
}

// Fixed reports whether a source is a number, whatever the call.
func (s *Source) Fixed() bool {
	return s.Header == "" && s.Query == "" && s.Path == "" && s.Body == "" && s.Count == "" && !s.Bytes && !s.Call && !s.Caller
}

// TimeForm is how an upstream writes a time.
type TimeForm string

// The forms. Seconds, minutes and durations count from the answer's Date.
const (
	UnixTime       TimeForm = "unix"
	UnixMillis     TimeForm = "unix_ms"
	SecondsToGo    TimeForm = "seconds"
	MinutesToGo    TimeForm = "minutes"
	DurationToGo   TimeForm = "duration" // 6m0s, 12ms
	RFC3339Time    TimeForm = "rfc3339"
	HTTPDate       TimeForm = "http_date"
	RetryAfterTime TimeForm = "retry_after" // seconds or an HTTP date, as Retry-After has them
)

// Time is where an answer has a time, and in what form.
type Time struct {
	Source Source
	As     TimeForm
}

// PoolName is a pool, or where an answer names one.
type PoolName struct {
	Name  string            // the pool; "" if From has it
	From  *Source           // its text names the pool
	Names map[string]string // the pool by the upstream's name for it; nil: they are the same
}

// Feedback is what the answers of an upstream report about one pool.
type Feedback struct {
	Pool        PoolName
	Limit       *Source
	Remaining   *Source
	Used        *Source
	UsedPercent *Source
	Reset       *Time
	Per         time.Duration // which window of the pool; 0: its only one, or its longest
	Refills     bool          // the pool is a bucket of the upstream: Reset moves with every answer
	Requested   bool          // the upstream counts what was requested: settling gives nothing back
	Standard    bool          // the fields RateLimit and RateLimit-Policy say it all, of any pool: see content.Limits
}

// Condition is what an answer must have; all fields that are set count.
type Condition struct {
	Status []int
	Header string
	Value  string // of Header; "" is any
}
