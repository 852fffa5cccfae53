package book

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

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
		say("%s", u.Refusals[i].String())
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
	if p.By != nil {
		parts := make([]string, len(p.By))
		for i, by := range p.By {
			parts[i] = by.String()
		}
		text += ", for each " + list(parts, "and")
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
		parts = append(parts, "status "+numbers(c.Status))
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

func numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return list(texts, "or")
}

// String says in words what a refusal blocks, and until when: "status 429 blocks core for
// 1m0s".
func (u *Refusal) String() string {
	text := u.words()
	if len(u.Reason) > 0 {
		text += " and reason " + list(u.Reason, "or")
	}
	if len(u.Body) > 0 {
		quoted := make([]string, len(u.Body))
		for i, part := range u.Body {
			quoted[i] = strconv.Quote(part)
		}
		text += " and " + list(quoted, "or") + " in the body"
	}
	if u.Credential {
		return text + ": the API key is not accepted"
	}
	switch {
	case u.Pool != nil:
		text += " blocks " + u.Pool.String()
	case len(u.Pools) > 0:
		text += " blocks " + list(u.Pools, "and")
	default:
		text += " blocks the pools of the call"
	}
	switch {
	case u.At != nil:
		text += " until " + u.At.Source.String()
	case u.Until == UntilReset:
		text += " until their reset"
	case u.Until != "":
		text += " until header " + http.CanonicalHeaderKey(u.Until)
	default:
		text += fmt.Sprintf(" for %s, or as Retry-After says", brief(u.For))
	}
	if u.Limit != nil {
		text += "; " + u.Limit.String() + " is their limit"
	}
	return text
}
