package metrics

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Metrics from the ledger. Upstream, account and pool together name a pool.
var (
	ledgerUp     = gauge("headroom_ledger_up", "Whether the ledger answered, and could be written by the server.")
	bookRevision = gauge("headroom_book_revision", "The revision of the price book in use.")

	poolBlocked      = gauge("headroom_pool_blocked", "Whether the pool is shut, by the upstream or by a person.", "upstream", "account", "pool")
	poolWaiting      = gauge("headroom_pool_waiting", "Jobs, tokens and processes that wait for units of the pool.", "upstream", "account", "pool")
	poolBlockedUntil = gauge("headroom_pool_blocked_until_timestamp_seconds", "When the block of the pool ends; 0 if it is open.", "upstream", "account", "pool")

	windowUsed     = gauge("headroom_window_used_units", "Units that count in the window now.", "upstream", "account", "pool", "window")
	windowLimit    = gauge("headroom_window_limit_units", "Units that ordinary calls may use of the window: its quota less the headroom.", "upstream", "account", "pool", "window")
	windowQuota    = gauge("headroom_window_quota_units", "Units that the upstream grants in the window.", "upstream", "account", "pool", "window")
	windowHeadroom = gauge("headroom_window_headroom_units", "Units of the window that ordinary calls leave free.", "upstream", "account", "pool", "window")
	windowNext     = gauge("headroom_window_next_units", "Units that come back next.", "upstream", "account", "pool", "window")
	windowNextAt   = gauge("headroom_window_next_timestamp_seconds", "When units come back next; 0 if none will.", "upstream", "account", "pool", "window")
	windowResetAt  = gauge("headroom_window_reset_timestamp_seconds", "When all units that count in the window now are free again.", "upstream", "account", "pool", "window")

	budgetUsed  = gauge("headroom_budget_used_dollars", "What counts in the window of a budget now, in US dollars; with a budget by key, that of the key with the least left.", "budget", "window")
	budgetLimit = gauge("headroom_budget_limit_dollars", "What a budget allows in the window, in US dollars.", "budget", "window")

	spendUnits = gauge("headroom_spend_today_units", "Units spent in this day of the pool's calendar, by labels; the smallest of many as other.", "upstream", "account", "pool", "method", "job", "region", "class")
	spendCalls = gauge("headroom_spend_today_calls", "Calls paid for in this day of the pool's calendar, by labels; the smallest of many as other.", "upstream", "account", "pool", "method", "job", "region", "class")
)

// readLedger reads the pools and the spend of today. If the ledger has forgotten pools, it returns what is
// known of the others, and an error.
func readLedger(ctx context.Context, src *view.Sources) (r readings, err error) {
	r.add(bookRevision, float64(src.Ledger.Book().Revision))
	pools, lost := src.Ledger.View().Usage(ctx, "", "")
	if len(pools) == 0 {
		return nil, lost
	}
	for i := range pools {
		if i > 0 && pools[i].Keys > 0 && sameName(pools[i].Pool, pools[i-1].Pool) {
			continue // of a keyed pool, the fullest key comes first; nothing bounds the names of keys
		}
		_, rate := src.Ledger.Book().StepsOf(pools[i].Pool.Upstream, pools[i].Pool.Name)
		r.pool(&pools[i], pools[i].Pool.IsMoney() && !rate)
	}
	spent, err := src.Ledger.View().Spend(ctx, quota.SpendQuery{Since: pools[0].Now})
	if err != nil {
		return nil, err
	}
	r.spend(spent)
	return r, lost // of the pools that are known
}

func (r *readings) pool(u *quota.Usage, budget bool) {
	of := []string{u.Pool.Upstream, u.Pool.Account, u.Pool.Name}
	blocked, until := 0.0, 0.0
	if u.Blocked.After(u.Now) {
		blocked, until = 1, instant(u.Blocked)
	}
	r.add(poolWaiting, float64(len(u.Waiting)), of...)
	r.add(poolBlocked, blocked, of...)
	r.add(poolBlockedUntil, until, of...)
	for _, w := range u.Allowances {
		of := append(slices.Clip(of), w.Window)
		r.add(windowUsed, float64(w.Used), of...)
		r.add(windowLimit, float64(w.Limit), of...)
		r.add(windowQuota, float64(w.Quota), of...)
		free := w.Headroom
		if w.Reported > 0 {
			free = w.ReportedHeadroom
		}
		r.add(windowHeadroom, float64(free), of...)
		r.add(windowNext, float64(w.NextUnits), of...)
		r.add(windowNextAt, instant(w.NextAt), of...)
		r.add(windowResetAt, instant(w.ResetAt), of...)
		if budget {
			r.add(budgetUsed, float64(w.Used)/1e6, of[2:]...)
			if w.Limit < window.MaxUnits { // else nothing bounds it
				r.add(budgetLimit, float64(w.Limit)/1e6, of[2:]...)
			}
		}
	}
}

func sameName(a, b quota.Pool) bool {
	a.Key, b.Key = "", ""
	return a == b
}

// maxSpenders bounds the sets of labels of a pool, because callers choose the names of
// their jobs.
const maxSpenders = 300

// spender is a set of labels of a pool.
type spender struct {
	pool   quota.Pool
	labels quota.Labels // without a reason
}

// spend adds the spend of each set of labels, up to a bound for each pool. It leaves out
// the reasons of corrections, which are free text.
func (r *readings) spend(all []quota.Spent) {
	sums := map[spender]quota.Spent{}
	for _, s := range all {
		key := spender{s.Pool, s.Labels}
		key.labels.Reason = ""
		sum := sums[key]
		sums[key] = quota.Spent{Units: sum.Units + s.Units, Calls: sum.Calls + s.Calls}
	}
	for key, s := range largest(sums) {
		l := key.labels
		of := []string{key.pool.Upstream, key.pool.Account, key.pool.Name, l.Method, l.Job, l.Region, l.Class}
		r.add(spendUnits, float64(s.Units), of...)
		r.add(spendCalls, float64(s.Calls), of...)
	}
}

// largest keeps the largest sums of each pool and adds up the others.
func largest(sums map[spender]quota.Spent) map[spender]quota.Spent {
	order := slices.SortedFunc(maps.Keys(sums), func(a, b spender) int { return cmp.Compare(sums[b].Units, sums[a].Units) })
	kept, counts := map[spender]quota.Spent{}, map[quota.Pool]int{}
	for _, key := range order {
		s := sums[key]
		if counts[key.pool]++; counts[key.pool] > maxSpenders {
			key.labels = quota.OtherLabels
		}
		sum := kept[key]
		kept[key] = quota.Spent{Units: sum.Units + s.Units, Calls: sum.Calls + s.Calls}
	}
	return kept
}

// turnedAway counts what the server turned away, in this process. Each reason is there from
// the start, so that an alert sees the first one.
type turnedAway struct {
	connections, requests *prometheus.CounterVec
	accepts               prometheus.Counter
}

// The reasons of [Metrics.ConnectionClosed] and [Metrics.RequestRefused].
const (
	OfClient   = "client"      // the client has too many at once
	OfAll      = "all"         // there are too many of all clients
	Searches   = "searches"    // too many searches wait
	Histories  = "histories"   // too many requests for the history wait
	CrossSite  = "cross_site"  // a page of another site sent it
	WrongToken = "wrong_token" // the address sent too many wrong tokens
	OfToken    = "token"       // the token has too many calls through the proxy at once
	Waiting    = "waiting"     // too many calls through the proxy wait for units
	Bodies     = "bodies"      // bodies of calls through the proxy take too much memory
)

func newTurnedAway() turnedAway {
	counter := func(name, help string, reasons ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
		for _, reason := range reasons {
			c.WithLabelValues(reason)
		}
		return c
	}
	return turnedAway{
		accepts:     prometheus.NewCounter(prometheus.CounterOpts{Name: "ingestor_accept_errors_total", Help: "How often this server could not accept connections, as when it may open no more files."}),
		connections: counter("ingestor_connections_closed_total", "Connections that this server closed to make room for others: of a client that has too many (client), or of the one that has the most (all).", OfClient, OfAll),
		requests:    counter("ingestor_requests_turned_away_total", "Requests that this server did not begin to answer, by the reason.", OfClient, Searches, Histories, CrossSite, WrongToken, OfToken, Waiting, Bodies),
	}
}

// ConnectionClosed counts a connection that was closed to make room.
func (m *Metrics) ConnectionClosed(reason string) {
	m.away.connections.WithLabelValues(reason).Inc()
}

// AcceptFailed counts an error of a listener.
func (m *Metrics) AcceptFailed() { m.away.accepts.Inc() }

// RequestRefused counts a request that was turned away.
func (m *Metrics) RequestRefused(reason string) { m.away.requests.WithLabelValues(reason).Inc() }
