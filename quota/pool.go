package quota

import (
	"log/slog"
	"strings"

	"github.com/headroom-quota/headroom/quota/book"
)

// String returns the pool as text: "youtube/units", "youtube@staging/units",
// "api/tokens:model-x" (a key of a keyed pool), "client:203.0.113.7" (a family's member).
// It escapes the characters that separate names, as a URL does.
// [ParsePool] reads it back.
func (p Pool) String() string {
	account := escape(p.Upstream, ":/@%")
	if p.Account != DefaultAccount && p.Account != "" {
		account += "@" + escape(p.Account, ":/%")
	}
	if p.Name == "" {
		return account + ":" + p.Key
	}
	name := account + "/" + escape(p.Name, ":/%")
	if p.Key != "" {
		name += ":" + p.Key
	}
	return name
}

// IsMoney reports whether the units of the pool are millionths of [book.Money]: it is a budget.
func (p Pool) IsMoney() bool { return p.Upstream == book.Budgets }

// Logged returns units of the pool for a log: a number, or what a budget has as 12.50 USD.
func (p Pool) Logged(name string, units int64) slog.Attr {
	if p.IsMoney() {
		return slog.String(name, book.FormatMoney(units))
	}
	return slog.Int64(name, units)
}

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

// escapes are all that can be read back, each before what it stands for.
var escapes = []string{"%25", "%", "%2F", "/", "%3A", ":", "%40", "@"}

// escape escapes those characters of a name that are among the marks, and each % that would otherwise begin an escape.
// The marks end with a %.
func escape(name, marks string) string {
	if !strings.ContainsAny(name, marks) {
		return name
	}
	var pairs []string
	for i := 0; i < len(escapes); i += 2 {
		pairs = append(pairs, escapes[i], "%25"+escapes[i][1:])
		if escapes[i+1] != "%" && strings.Contains(marks, escapes[i+1]) {
			pairs = append(pairs, escapes[i+1], escapes[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(name)
}

var unescaper = strings.NewReplacer(escapes...)

func unescape(text string) string { return unescaper.Replace(text) }
