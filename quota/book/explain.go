package book

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/internal/strictyaml"
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
	if s.Weight != nil {
		text = "(" + text + ") x (" + s.Weight.String() + ")"
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
	case s.Time:
		return "the milliseconds of the call"
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

// Words explains in words what holds for all calls of an upstream: a line for each thing.
func (u *Upstream) Words() []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if len(u.Hosts) > 0 {
		say("meters calls to %s", list(u.Hosts, "and"))
	}
	if len(u.Redirects) > 0 {
		say("follows redirects to %s, without the API key", list(u.Redirects, "and"))
	}
	if u.Mode == Observe {
		say("counts calls, and refuses none")
	}
	if text := u.accountWords(); text != "" {
		say("%s", text)
	}
	for _, name := range slices.Sorted(maps.Keys(u.Pools)) {
		say("pool %s: %s", name, u.Pools[name].words())
	}
	if to := u.SpillsTo(""); to != "" {
		say("calls that lack units go to %s", to)
	}
	if u.NoSpill != "" {
		say("calls never spill from it or to it: %s", u.NoSpill)
	}
	for _, b := range u.Budgets {
		say("spends budget %s: %s", b.Name, b.words())
	}
	if l := u.Prices; l != nil {
		say("%s", l.words())
	}
	for i := range u.Feedback {
		say("%s", u.Feedback[i].String())
	}
	for i := range u.Free {
		say("an answer with %s costs nothing", u.Free[i].words())
	}
	if u.FailedFree {
		say("an answer with status 500 or more costs nothing")
	}
	for i := range u.Refusals {
		say("%s", u.Refusals[i].In(u))
	}
	return all
}

// accountWords says whom the upstream counts, or "" if there is one account.
func (u *Upstream) accountWords() string {
	var text string
	switch named := slices.DeleteFunc(slices.Clone(u.Accounts), func(s string) bool { return s == DefaultAccount }); {
	case u.AnyAccount && len(named) > 0:
		text = "counts each account separately; " + list(named, "and") + " may have limits of their own"
	case u.AnyAccount:
		text = "counts each account separately"
	case len(u.Accounts) > 1 || len(named) > 0:
		text = "counts the accounts " + list(u.Accounts, "and") + " separately"
	default:
		return ""
	}
	switch from := u.AccountFrom; {
	case from.Header != "":
		text += "; header " + from.Header + " names the account"
	case from.Host > 0:
		text += fmt.Sprintf("; label %d of the host names the account", from.Host)
	}
	return text
}

func (p *Pool) words() string {
	text := windowWords(p.Windows, p.Money)
	if p.OnlyKeys {
		text = "for its keys alone"
	}
	if p.By != nil {
		text += ", for each " + list(textsOf(p.By, Source.String), "and")
	}
	own := func(what string, sets map[string][]Window) {
		for _, name := range slices.Sorted(maps.Keys(sets)) {
			text += fmt.Sprintf("; %s %s has %s", what, name, windowWords(sets[name], p.Money))
		}
	}
	own("key", p.Keys)
	own("account", p.Accounts)
	for i := range p.Then {
		text += "; " + p.Then[i].String()
	}
	if l := p.Lease; l.Life > 0 {
		most := fmt.Sprintf("%d units", l.Most)
		if l.MostPercent > 0 {
			most = fmt.Sprintf("%d%%", l.MostPercent)
		}
		text += fmt.Sprintf("; in blocks of at most %s for %s", most, brief(l.Life))
	}
	if p.Learned != nil {
		text += fmt.Sprintf("; its rate is learned from refusals, from %d a second up to %d", p.Learned.From, p.Learned.To)
	}
	if p.LearnLimit {
		text += "; answers may raise it"
	}
	if p.Metric != "" {
		text += "; the upstream counts it as " + p.Metric
	}
	if p.Example != "" {
		text += "; an example to override: " + p.Example
	}
	return text
}

func windowWords(all []Window, money bool) string {
	texts := make([]string, len(all))
	for i, w := range all {
		switch {
		case w.InFlight():
			texts[i] = fmt.Sprintf("%d at once, given back %s after a crash", w.Quota, brief(w.Per))
		case w.Drains():
			texts[i] = fmt.Sprintf("a bucket of %d that refills by %d in %s", w.Quota, w.Rate, brief(w.Per))
		case money:
			texts[i] = fmt.Sprintf("%s in %s", FormatMoney(w.Quota), w.Spec)
		default:
			texts[i] = fmt.Sprintf("%d in %s", w.Quota, w.Spec)
		}
		if w.Headroom > 0 {
			texts[i] += fmt.Sprintf(", %d of them kept free", w.Headroom)
		}
	}
	return list(texts, "and")
}

func (c *Condition) words() string {
	var parts []string
	if len(c.Status) > 0 {
		parts = append(parts, "status "+list(textsOf(c.Status, strconv.Itoa), "or"))
	}
	if c.Header != "" {
		text := "header " + http.CanonicalHeaderKey(c.Header)
		if c.Value != "" {
			text += ": " + c.Value
		}
		parts = append(parts, text)
	}
	return list(parts, "and")
}

// String says in words what a refusal blocks, and until when: "status 429 blocks core for
// 1m0s". It knows nothing of the pools. See [Refusal.In].
func (u *Refusal) String() string { return u.In(&Upstream{}) }

// In is like String. It says which pools of the upstream are not blocked, because their limits are learned.
func (u *Refusal) In(of *Upstream) string {
	text := u.words()
	if len(u.Reason) > 0 {
		text += " and reason " + list(u.Reason, "or")
	}
	if len(u.Body) > 0 {
		text += " and " + list(textsOf(u.Body, strconv.Quote), "or") + " in the body"
	}
	if u.Credential {
		return text + ": the API key is not accepted"
	}
	told, blocked, or := u.parts(of)
	lasts := u.lasts()
	switch {
	case told == nil:
		text += " blocks " + blocked + lasts
	case blocked != "":
		text += " is told to the learned limit of " + list(told, "and") + ", " + or + " blocks " + blocked + "," + lasts
	case u.Until == UntilReset:
		text += " is told to the learned limit of " + list(told, "and")
	default:
		text += " is told to the learned limit of " + list(told, "and") + ", and asks to wait" + lasts
	}
	if u.Limit != nil {
		text += "; " + u.Limit.String() + " is their limit"
	}
	return text
}

// parts returns the learned pools that may be told of a refusal, and the words for those that may be blocked.
// Or is "and" if one refusal does both.
func (u *Refusal) parts(of *Upstream) (told []string, blocked, or string) {
	learns := func(name string) bool {
		p := of.Pools[name]
		return p != nil && p.Learned != nil && !(u.Until == UntilReset && p.Calendar())
	}
	named := u.Pools
	switch {
	case u.Pool != nil:
		named, blocked, or = u.Pool.Pools(of), u.Pool.String(), "or else"
	case named == nil:
		named, blocked, or = slices.Sorted(maps.Keys(of.Pools)), "the pools of the call", "or else"
		if slices.ContainsFunc(named, func(name string) bool { return of.Pools[name].Windows[0].InFlight() }) {
			blocked += " but its slots"
		}
	}
	rest := slices.DeleteFunc(slices.Clone(named), learns)
	if told = slices.DeleteFunc(slices.Clone(named), func(name string) bool { return !learns(name) }); len(told) == 0 {
		told = nil
	}
	switch {
	case u.Pools != nil:
		return told, list(rest, "and"), "and"
	case told != nil && (len(rest) == 0 || u.Pool == nil && u.Until != UntilReset && of.charges(learns)):
		blocked = ""
	}
	return told, blocked, or
}

// charges reports whether each method charges a pool of a kind.
func (u *Upstream) charges(kind func(pool string) bool) bool {
	for _, methods := range []map[string]*Method{u.Methods, u.Default} {
		for _, m := range methods {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(m.Charges)), kind) {
				return false
			}
		}
	}
	return true
}

// lasts says until when pools are blocked.
func (u *Refusal) lasts() string {
	switch {
	case u.At != nil:
		return " until " + u.At.Source.String()
	case u.Until == UntilReset:
		return " until their reset"
	case u.Until != "":
		return " until header " + http.CanonicalHeaderKey(u.Until)
	}
	return fmt.Sprintf(" for %s, or as Retry-After says", brief(u.For))
}

// list writes words as people do: a, b or c.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// textsOf returns the texts of all.
func textsOf[T any](all []T, text func(T) string) []string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = text(one)
	}
	return texts
}

func didYouMean(word string, known []string) string {
	if best := strictyaml.Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// orMean suggests a word, or else says what to do.
func orMean(word string, known []string, otherwise string) string {
	if s := didYouMean(word, known); s != "" {
		return s
	}
	return "; " + otherwise
}
