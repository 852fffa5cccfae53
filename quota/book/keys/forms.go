package keys

import "time"

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
