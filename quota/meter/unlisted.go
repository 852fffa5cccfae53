package meter

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/headroom-quota/headroom/quota"
)

// UnlistedError says that a request was not sent, because no upstream of the price book lists
// its host, and the transport is strict. It matches [quota.ErrUnpriced].
type UnlistedError struct {
	Host string
	Like string // a host of the price book that is nearly the same, or ""
}

func (e *UnlistedError) Error() string {
	s := fmt.Sprintf("the price book does not list %q", e.Host)
	if e.Like != "" {
		s += "; did you mean " + e.Like + "?"
	}
	return s + "; add it to the hosts of an upstream in costs.yaml, or send the request without this transport"
}

func (e *UnlistedError) Is(target error) bool { return target == quota.ErrUnpriced }

// mostUnlisted is how many hosts are named in the log.
const mostUnlisted = 64

// unlisted are the hosts that the log has named.
type unlisted struct {
	mu    sync.Mutex
	hosts map[string]bool
}

// first reports whether a host is new, and whether it is the last one to be named.
func (u *unlisted) first(host string) (is, last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hosts[host] || len(u.hosts) == mostUnlisted {
		return false, false
	}
	if u.hosts == nil {
		u.hosts = map[string]bool{}
	}
	u.hosts[host] = true
	return true, len(u.hosts) == mostUnlisted
}

// unmetered tells of a request to a host that no upstream lists. It returns an error if such
// requests are not sent.
func (t *Transport) unmetered(req *http.Request) error {
	if req.URL == nil || req.URL.Host == "" {
		return nil // the base returns the error
	}
	costs := t.ledger.Book()
	if from, _ := crosses(costs, req); from != nil {
		return nil // the price book allows the redirect
	}
	host := hostOf(req.URL)
	var err error
	if t.set.Strict {
		err = &UnlistedError{Host: host, Like: costs.SuggestHost(host)}
	} else if is, last := t.unlisted.first(host); is {
		attrs := []slog.Attr{slog.String("host", host)}
		level := slog.LevelInfo
		if like := costs.SuggestHost(host); like != "" {
			level, attrs = slog.LevelWarn, append(attrs, slog.String("like", like))
		}
		if last {
			attrs = append(attrs, slog.String("note", "further hosts are not named"))
		}
		t.set.Logger.LogAttrs(req.Context(), level, "calls to this host are not metered: no upstream of the price book lists it", attrs...)
	}
	t.ledger.Unmetered(req.Context(), host, err)
	return err
}
