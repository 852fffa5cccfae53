package quota

import (
	"strings"

	"github.com/headroom-quota/headroom/quota/book"
)

// String returns the pool as text: "youtube/units", "youtube@staging/units",
// "api/tokens:model-x" (a key of a keyed pool), "client:203.0.113.7" (a family's member).
// It escapes the characters that separate names, as a URL does.
// [ParsePool] reads it back.
func (p Pool) String() string {
	account := upstreamText.escape(p.Upstream)
	if p.Account != DefaultAccount && p.Account != "" {
		account += "@" + accountText.escape(p.Account)
	}
	if p.Name == "" {
		return account + ":" + p.Key
	}
	name := account + "/" + nameText.escape(p.Name)
	if p.Key != "" {
		name += ":" + p.Key
	}
	return name
}

// IsMoney reports whether the units of the pool are millionths of [book.Money]: it is a budget.
func (p Pool) IsMoney() bool { return p.Upstream == book.Budgets }

// ParsePool reads what [Pool.String] wrote.
func ParsePool(text string) (Pool, error) {
	between := strings.IndexAny(text, ":/")
	if between < 0 {
		return Pool{}, badPool(text)
	}
	who, rest := text[:between], text[between+1:]
	upstream, account, named := strings.Cut(who, "@")
	if !named {
		account = DefaultAccount
	}
	p := Pool{Upstream: unescape(upstream), Account: unescape(account)}
	if text[between] == ':' {
		p.Key = rest
	} else {
		name, key, keyed := strings.Cut(rest, ":")
		if name == "" || keyed && key == "" || strings.Contains(name, "/") {
			return Pool{}, badPool(text)
		}
		p.Name, p.Key = unescape(name), key
	}
	if p.Upstream == "" || p.Account == "" || rest == "" {
		return Pool{}, badPool(text)
	}
	return p, nil
}

func badPool(text string) error {
	return BadInput("pool %q is not written upstream/pool, upstream@account/pool or upstream/pool:key", text)
}

// part escapes one name in the text of a pool. It escapes separators, and a % that would
// otherwise begin an escape.
type part struct {
	marks    string
	replacer *strings.Replacer
}

var (
	upstreamText = newPart(":/@")
	accountText  = newPart(":/")
	nameText     = newPart(":/")
)

// escapes are all that can be read back, each before what it stands for.
var escapes = []string{"%25", "%", "%2F", "/", "%3A", ":", "%40", "@"}

func newPart(marks string) part {
	var pairs []string
	for i := 0; i < len(escapes); i += 2 {
		pairs = append(pairs, escapes[i], "%25"+escapes[i][1:])
		if strings.Contains(marks, escapes[i+1]) {
			pairs = append(pairs, escapes[i+1], escapes[i])
		}
	}
	return part{marks + "%", strings.NewReplacer(pairs...)}
}

func (p part) escape(name string) string {
	if !strings.ContainsAny(name, p.marks) {
		return name
	}
	return p.replacer.Replace(name)
}

var unescaper = strings.NewReplacer(escapes...)

func unescape(text string) string { return unescaper.Replace(text) }
