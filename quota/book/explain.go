package book

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota/window"
)

// String says in words what a source reads: "max_tokens, or 4096 if it is missing".
func (s Source) String() string {
	text := s.where()
	if s.Fixed() {
		return text
	}
	if s.JSON != "" {
		text = s.JSON + " in " + text
	}
	if s.Match != nil {
		text = fmt.Sprintf("what %s finds in %s", s.Match, text)
	}
	if s.Cases != nil {
		var cases []string
		for _, name := range slices.Sorted(maps.Keys(s.Cases)) {
			cases = append(cases, fmt.Sprintf("%s is %d", name, s.Cases[name]))
		}
		each := "by "
		if s.Split != "" {
			each = "for each part of "
		}
		text = each + text + " (" + strings.Join(cases, ", ") + ")"
	}
	if s.Per > 1 {
		text += fmt.Sprintf(" / %d", s.Per)
	}
	if s.Times > 1 {
		text += fmt.Sprintf(" x %d", s.Times)
	}
	if s.Min > 0 {
		text += fmt.Sprintf(", at least %d", s.Min)
	}
	if s.Max > 0 && s.Max < window.MaxUnits {
		text += fmt.Sprintf(", at most %d", s.Max)
	}
	switch {
	case s.Default != nil:
		text += fmt.Sprintf(", or %d if it is missing", *s.Default)
	case s.DefaultText != "":
		text += fmt.Sprintf(", or %s if it is missing", s.DefaultText)
	}
	return text
}

// where says where a source stands, or its number.
func (s *Source) where() string {
	switch {
	case s.Header != "":
		return "header " + s.Header
	case s.Query != "":
		return "parameter " + s.Query
	case s.Path != "":
		return "{" + s.Path + "} of the path"
	case s.Body != "":
		return strings.ReplaceAll(s.Body, "|", " or ")
	case s.Count != "":
		return "the length of " + s.Count
	case s.Bytes:
		return "the bytes of the body"
	case s.Call:
		return "method"
	case s.Caller:
		return "caller"
	}
	return strconv.FormatInt(s.Number, 10)
}

// String says in words what a price reserves, and what it settles to.
func (p *Price) String() string {
	text := "reserves " + sum(p.Estimate)
	if p.Learn != nil {
		text = fmt.Sprintf("reserves what %d%% of the recent calls stayed within", p.Learn.Percent)
		if len(p.Estimate) > 0 {
			text += ", at most " + sum(p.Estimate)
		}
		if p.Learn.First > 0 {
			text += fmt.Sprintf(", and %d at first", p.Learn.First)
		}
	}
	if len(p.Actual) > 0 {
		text += "; settles to " + sum(p.Actual)
	}
	if p.AtEnd {
		text += ", counted when the answer ends"
	}
	return text
}

// sum says in words what several sources add up to.
func sum(all []Source) string {
	texts := make([]string, len(all))
	for i, s := range all {
		if texts[i] = s.String(); len(all) > 1 && strings.Contains(texts[i], ",") {
			texts[i] = "(" + texts[i] + ")"
		}
	}
	return strings.Join(texts, " + ")
}

// String says in words which pool it is.
func (n *PoolName) String() string {
	if n.From == nil {
		return n.Name
	}
	text := "the pool that " + n.From.String() + " names"
	if n.Names == nil {
		return text
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(n.Names)) {
		if pool := n.Names[name]; pool != name {
			name += " is " + pool
		}
		names = append(names, name)
	}
	return text + " (" + strings.Join(names, ", ") + ")"
}

// String says in words what answers report: "learns what is left of core from header
// X-Ratelimit-Remaining, until header X-Ratelimit-Reset".
func (f *Feedback) String() string {
	if f.Standard {
		return "learns from the fields RateLimit and RateLimit-Policy: of each policy, what is left, the limit and the reset"
	}
	var text string
	switch of := " of " + f.Pool.String() + " from "; {
	case f.Remaining != nil:
		text = "learns what is left" + of + f.Remaining.String()
	case f.Used != nil:
		text = "learns what is used" + of + f.Used.String()
	case f.UsedPercent != nil:
		text = "learns the percentage used" + of + f.UsedPercent.String()
	default:
		text = "learns about " + f.Pool.String()
	}
	if f.Limit != nil {
		text += ", and the limit from " + f.Limit.String()
	}
	switch {
	case f.Refills:
		text += "; it refills steadily"
	case f.Reset != nil:
		text += ", until " + f.Reset.Source.String()
	}
	if f.Requested {
		text += "; the upstream counts what was requested"
	}
	return text
}
