package meter

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

const (
	// mostRead is the number of bytes of a body that the rules read.
	mostRead = 64 << 10
	// blockTimeout bounds the time to shut one pool. It is long enough to notice an outage
	// of the ledger and to write the block into the journal.
	blockTimeout = 5 * time.Second
	// longestBlock is the longest block that a header may ask for. A longer one was misread.
	longestBlock = 366 * 24 * time.Hour
	// longestBurst is how long a block may be that ends a burst.
	longestBurst = 15 * time.Minute
	// sooner is which part of its longest window a pool is shut if it has units left, and the answer does not say
	// until when: a twentieth.
	sooner = 20
)

// refusal is an answer with which the upstream refuses a call.
type refusal struct {
	rule   *book.Refusal
	found  string    // the match, in the rule's words, not the upstream's
	reason string    // the upstream's message
	until  time.Time // that the answer named
	wait   time.Duration
	pool   string // that the answer named
	limit  int64  // that the answer named, or 0
	again  bool   // the answer has a Retry-After
}

// readRefusal checks an answer by the rules of the upstream, and shuts pools if it is a
// refusal. The body can still be read. If the upstream rejects the key, readRefusal
// returns an error in place of the answer. The body of an answer that may be a stream is
// not read here, but by the watcher that it returns.
func (c *call) readRefusal(resp *http.Response) ([]watcher, error) {
	if s := newStreamed(c, resp); s != nil {
		s.shut = func(no *refusal, b *body) {
			no.reason = said(s.resp, b, c.hidden())
			c.t.shuts.do(func() { c.shut(no) })
		}
		if s.passed = func() {}; len(c.learned()) > 0 { // a limit that is learned must know whether it was refused
			s.passed = c.granted.Answered
		} else {
			c.granted.Answered() // unless it was refused: then the pool is shut again
		}
		return []watcher{s}, nil
	}
	var b body
	no := findRefusal(c.upstream, c.upstream.Refusals, resp, &b)
	if no == nil {
		c.blocksNothing(resp)
		c.granted.Answered()
		return nil, nil
	}
	if no.rule.Credential {
		err := &CredentialError{Upstream: c.upstream.Name, Account: c.account, Status: resp.StatusCode, Reason: no.found}
		if resp.Body != nil { // some base transports return no body
			_ = resp.Body.Close() // the caller does not get it
		}
		c.log(slog.LevelWarn, "refused by the upstream", slog.String("error", err.Error()))
		return nil, err
	}
	no.reason = said(resp, &b, c.hidden())
	c.shut(no)
	c.granted.Answered() // unless it was refused: then the pool is shut again
	return nil, nil
}

// blocksNothing says that calls go on although the upstream refuses them, once in a while. Limits that are
// learned are told: to them, such a call must not pass for one that was accepted.
func (c *call) blocksNothing(resp *http.Response) {
	if resp.StatusCode != http.StatusTooManyRequests {
		return
	}
	var attrs []slog.Attr
	for _, name := range c.learned() {
		attrs = append(attrs, slog.String("learned", c.pool(name).String()))
		if err := c.learn(charged.Told{Pool: c.pool(name)}); err != nil {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
	}
	line := refusedLine{pool: quota.Pool{Upstream: c.upstream.Name, Account: c.account}, method: c.name}
	level, now := slog.LevelWarn, c.t.ledger.Now()
	before, first := c.t.refusals.Begins(line, now, now.Add(15*time.Minute))
	if !first {
		level = slog.LevelDebug
	}
	c.log(level, "refused by the upstream, which blocks nothing: no refusal of the price book is about this answer", append(attrs,
		slog.Int("status", resp.StatusCode), slog.Int64("refused_before", before),
		slog.String("hint", fmt.Sprintf("add {status: %d, for: 30s} to the refusals of %s; a Retry-After of the answer takes precedence", resp.StatusCode, c.upstream.Name)))...)
}

// learn tells a learned limit that the upstream has refused the call. Others need it even if this caller gives up.
func (c *call) learn(t charged.Told) error {
	charged.Of(c.context()).Tell(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.context()), blockTimeout)
	defer cancel()
	_, err := c.granted.Refused(ctx, t.Pool, t.Named)
	return err
}

// shut shuts the pools that a refusal is about, for every process.
func (c *call) shut(no *refusal) {
	defer c.granted.Unanswered() // to learned limits that the refusal is not about, it is no call that has passed
	var pools []quota.Pool
	for _, name := range no.pools(c) {
		if pool, ok := c.refusedPool(name); ok {
			pools = append(pools, pool)
		}
	}
	if len(pools) == 0 {
		c.log(slog.LevelWarn, "refused by the upstream", slog.String("rule", no.found), slog.String("reason", no.reason))
		return // it has no price, and charges no pool, or the rule names no pool of its keys
	}
	for _, pool := range pools {
		spaced, err := c.block(pool, no)
		attrs := []slog.Attr{slog.String("pool", pool.String()), slog.String("rule", no.found), slog.String("reason", no.reason)}
		switch {
		case no.wait > 0:
			attrs = append(attrs, slog.String("retry_after", no.wait.String()))
		case !no.until.IsZero():
			attrs = append(attrs, slog.Time("retry_at", no.until))
		}
		if no.limit > 0 {
			attrs = append(attrs, slog.Int64("upstream_limit", no.limit))
		}
		if spaced {
			attrs = append(attrs, slog.String("hint", "units are left, so another limit refused it: calls of the pool are spaced after this; if you know the limit, make it a pool of its own"))
		}
		if err != nil { // the answer is what the caller gets
			attrs = append(attrs, slog.String("error", err.Error()))
		}
		c.log(slog.LevelWarn, "refused by the upstream", attrs...)
		if no.limit > 0 {
			c.tell(quota.Observation{Pool: pool, Limit: no.limit})
		}
	}
}

// pools returns the pools that a refusal is about: those of the rule, or else the likely ones of the call.
func (no *refusal) pools(c *call) []string {
	switch {
	case no.rule.Credential:
		return nil
	case no.pool != "":
		return []string{no.pool}
	case no.rule.Pools != nil:
		return no.rule.Pools
	case c.method != nil:
		return no.likely(c, slices.Sorted(maps.Keys(c.method.Charges)))
	}
	return nil
}

// likely leaves out the pools of a call that a refusal is hardly about. These are slots, and beside a learned
// limit those with a published limit, unless the answer tells that it is used up, or the refusal lasts until its reset.
func (no *refusal) likely(c *call, all []string) []string {
	learns := len(c.learned()) > 0
	likely := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		p := c.upstream.Pools[name]
		switch {
		case p == nil || p.Learned != nil:
			return false
		case p.Windows[0].InFlight():
			return true
		}
		return learns && !c.usedUp(name) && !(no.rule.Until == book.UntilReset && p.Calendar())
	})
	if len(likely) == 0 {
		return all // nothing else would keep the next call
	}
	return likely
}

// learned returns the pools of a call whose limits are learned.
func (c *call) learned() (all []string) {
	if c.method == nil || c.granted == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.method.Charges)) {
		if p := c.upstream.Pools[name]; p != nil && p.Learned != nil {
			all = append(all, name)
		}
	}
	return all
}

// block shuts a pool for every process, or lowers the rate of one whose limit is learned. Other
// callers need the block even if this one gives up. Spaced is whether no limit explains the refusal
// that answers tell.
func (c *call) block(pool quota.Pool, no *refusal) (spaced bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.context()), blockTimeout)
	defer cancel()
	ledger, of := c.t.ledger, c.upstream.Pools[pool.Name]
	if learns := of != nil && of.Learned != nil && c.granted != nil; learns && no.rule.Until == book.UntilReset && of.Calendar() {
		c.granted.Unanswered() // the pool is shut, which says nothing about its rate
	} else if learns {
		named := no.wait
		if !no.until.IsZero() {
			named = no.until.Sub(ledger.Now())
		}
		return false, c.learn(charged.Told{Pool: pool, Named: named, Ruled: true})
	}
	wait, until, reason := no.wait, no.until, no.reason
	if c.hasRoomIn(of) { // another limit than those that are told has refused the call
		named := wait
		if !until.IsZero() {
			named = until.Sub(quota.SystemClock{}.Now())
		}
		longest := longestWindow(of)
		if no.untilReported(c) {
			until, wait = time.Time{}, max(min(named, longest/sooner, longestBurst), time.Second)
			named = wait
		}
		if 0 < named && named <= min(longest/4, longestBurst) {
			reason, spaced = quota.Unexplained(reason), true
		}
	}
	switch {
	case wait > 0:
		return spaced, ledger.BlockFor(ctx, pool, wait, reason)
	case !until.IsZero():
		// a time in the past, by another clock, also means as soon as possible
		if err := ledger.BlockFor(ctx, pool, time.Second, reason); err != nil {
			return spaced, err
		}
		err := ledger.Block(ctx, pool, until, reason)
		if no.rule.For > 0 && errors.Is(err, quota.ErrBadInput) { // a date too far off to be meant
			err = ledger.BlockFor(ctx, pool, no.rule.For, reason)
		}
		return spaced, err
	}
	return spaced, ledger.BlockUntilReset(ctx, pool, no.reason)
}

// untilReported reports whether a pool is shut until the reset that answers report, and not as a Retry-After says.
func (no *refusal) untilReported(c *call) bool {
	if no.rule.At == nil || no.again {
		return false
	}
	at := no.rule.At.Source
	return !strings.EqualFold(at.Header, "Retry-After") && slices.ContainsFunc(c.reports, func(r *report) bool {
		reset := r.of.Reset
		return reset != nil && strings.EqualFold(reset.Source.Header, at.Header) && reset.Source.Body == at.Body
	})
}

// longestWindow returns the length of the longest window of a pool.
func longestWindow(p *book.Pool) (longest time.Duration) {
	for _, w := range p.Windows {
		longest = max(longest, w.Length())
	}
	return longest
}

// findRefusal returns the refusal of the first rule that matches an answer, or nil.
func findRefusal(u *book.Upstream, rules []book.Refusal, resp *http.Response, b *body) *refusal {
	for i := range rules {
		rule := &rules[i]
		found, ok := matches(rule, resp, b)
		if !ok {
			continue
		}
		no := &refusal{rule: rule, found: strings.TrimSpace(strconv.Itoa(resp.StatusCode) + " " + found)}
		if no.when(resp, b) && no.which(u, resp, b) {
			if rule.Limit != nil {
				no.limit, _ = read(rule.Limit, resp, b).Units(0)
			}
			return no
		}
	}
	return nil
}

// matches reports whether an answer meets all conditions of a rule, and which of the
// rule's words it found.
func matches(rule *book.Refusal, resp *http.Response, b *body) (found string, ok bool) {
	if !meets(&rule.Condition, resp) {
		return "", false
	}
	if found = rule.Header; rule.Value != "" {
		found += ": " + rule.Value
	}
	if rule.Body != nil {
		b.read(resp)
		i := slices.IndexFunc(rule.Body, func(text string) bool { return bytes.Contains(b.text, []byte(text)) })
		if i < 0 {
			return "", false
		}
		found = rule.Body[i]
	}
	if rule.Reason != nil {
		b.read(resp)
		i := slices.IndexFunc(rule.Reason, func(r string) bool { return slices.Contains(b.reasons, r) })
		if i < 0 {
			return "", false
		}
		found = rule.Reason[i]
	}
	return found, true
}

func meets(when *book.Condition, resp *http.Response) bool {
	if len(when.Status) > 0 && !slices.Contains(when.Status, resp.StatusCode) {
		return false
	}
	if when.Header == "" {
		return true
	}
	value, there := header(resp.Header, when.Header)
	return there && (when.Value == "" || value == when.Value)
}

// which fills in the pool that the answer names. It returns false if it names none.
func (no *refusal) which(u *book.Upstream, resp *http.Response, b *body) bool {
	name := no.rule.Pool
	switch {
	case name == nil:
		return true
	case name.From == nil:
		no.pool = name.Name
	default:
		text, _ := textOf(name.From, resp, b)
		no.pool = name.Pool(u, text)
	}
	return no.pool != ""
}

func textOf(s *book.Source, resp *http.Response, b *body) (string, bool) {
	return read(s, resp, b).Text(0)
}

func read(s *book.Source, resp *http.Response, b *body) *content.Reading {
	m := content.Message{Header: resp.Header}
	if s.Body != "" {
		b.read(resp)
		m.Header, m.Length = resp.Header.Clone(), int64(len(b.text))
		m.Header.Del("Content-Encoding") // it was decoded
	}
	r := content.NewSources(s).Read(m)
	_, _ = r.Write(b.text)
	r.End(true)
	return r
}

// when fills in how long to shut the pools. It returns false if the time is missing or
// invalid.
func (no *refusal) when(resp *http.Response, b *body) bool {
	h := resp.Header
	no.again = h.Get("Retry-After") != ""
	switch rule := no.rule; {
	case rule.At != nil:
		text, ok := textOf(&rule.At.Source, resp, b)
		if !ok {
			return false
		}
		if no.until, no.wait, ok = content.Time(rule.At.As, text); !ok {
			return false
		}
		if date, ok := dateOf(resp); ok && !no.until.IsZero() { // by the upstream's clock
			no.until, no.wait = time.Time{}, no.until.Sub(date)
		}
		if no.until.IsZero() && no.wait <= 0 {
			no.wait = time.Second // as soon as possible
		}
		return no.wait <= longestBlock
	case rule.For > 0:
		no.wait = rule.For
		if value, ok := header(h, "Retry-After-Ms"); ok { // of OpenAI and Azure
			if _, wait, ok := content.Time(book.SecondsToGo, value); ok {
				if no.wait = wait / 1000; wait <= 0 { // as soon as possible
					no.wait = time.Second
				}
				no.wait = max(no.wait, time.Millisecond)
				return true
			}
		}
		if value, ok := header(h, "Retry-After"); ok {
			if until, wait, ok := instant(value); ok {
				no.until, no.wait = until, wait
			}
		}
	case rule.Until != "" && rule.Until != book.UntilReset:
		value, _ := header(h, rule.Until)
		var ok bool
		no.until, no.wait, ok = instant(value)
		return ok
	}
	return true
}

func header(h http.Header, name string) (string, bool) {
	values := h.Values(name)
	if len(values) == 0 {
		return "", false
	}
	return strings.TrimSpace(values[0]), true
}

// instant reads the time of the next try: seconds from now, as in Retry-After, seconds or
// milliseconds since 1970, as in x-ratelimit-reset, or a date of HTTP.
func instant(text string) (until time.Time, wait time.Duration, ok bool) {
	const year2001 = 1_000_000_000 // longer than any wait, and earlier than any time to wait for
	as := book.RetryAfterTime
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= year2001*1000 {
		as = book.UnixMillis
	} else if err == nil && n >= year2001 {
		as = book.UnixTime
	}
	if until, wait, ok = content.Time(as, text); wait < 0 { // as soon as possible; a number below zero is no time at all
		_, err := strconv.ParseFloat(text, 64)
		wait, ok = time.Second, err != nil || strings.Trim(text, "0") == ""
	}
	return until, wait, ok
}

// body is the beginning of an answer's body.
type body struct {
	done    bool
	text    []byte
	reasons []string // the members "reason" of its JSON
	message string   // of its JSON
}

// read reads the beginning and puts it back.
func (b *body) read(resp *http.Response) {
	if b.done || resp.Body == nil {
		return
	}
	b.done = true
	head, err := io.ReadAll(io.LimitReader(resp.Body, mostRead))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failing{err} // after what came before it, as the caller would have seen it
	}
	resp.Body = &reread{io.MultiReader(bytes.NewReader(head), rest), resp.Body}
	b.text = head
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") { // the caller asked for it itself
		b.text = nil
		if z, err := gzip.NewReader(bytes.NewReader(head)); err == nil {
			b.text, _ = io.ReadAll(io.LimitReader(z, mostRead)) // best effort: use what could be read
		}
	}
	b.parse()
}

// parse reads the JSON of the text, which may be incomplete.
func (b *body) parse() {
	b.reasons = nil
	texts := map[string]string{} // error.message is the message of the error
	d := json.NewDecoder(bytes.NewReader(b.text))
	// value reads the value of a member that is so deep in objects. Lists add no depth, and the
	// objects in a list have the list's name.
	var value func(depth int, of, name string, listed bool) error
	value = func(depth int, of, name string, listed bool) error {
		token, err := d.Token()
		text, isText := token.(string)
		switch {
		case err != nil:
			return err
		case token == json.Delim('{'):
			for d.More() && err == nil {
				var key json.Token
				if key, err = d.Token(); err == nil {
					err = value(depth+1, name, key.(string), false)
				}
			}
		case token == json.Delim('['):
			for d.More() && err == nil {
				err = value(depth, of, name, true)
			}
		case !isText || listed || depth == 0:
			return nil
		default:
			if name == "reason" {
				b.reasons = append(b.reasons, text)
			}
			if depth == 2 {
				name = of + "." + name
			}
			if depth <= 2 && texts[name] == "" {
				texts[name] = text
			}
			return nil
		}
		if err == nil {
			_, err = d.Token() // the end of the object or list
		}
		return err
	}
	for value(0, "", "", false) == nil {
	}
	b.message = messageOf(texts)
}

type reread struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// dateOf returns when an answer was made, by the upstream's clock.
func dateOf(resp *http.Response) (time.Time, bool) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	return date, err == nil
}
