package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/meter"
)

// Labels are what a request says about itself in headers.
type Labels struct {
	Job     string        // Headroom-Job
	Region  string        // Headroom-Region
	Class   string        // Headroom-Class
	Account string        // Headroom-Account
	Wait    time.Duration // Headroom-Wait: how long it may wait for units
}

// labelPrefix begins the headers that are for the proxy.
const labelPrefix = "Headroom-"

// longestWait bounds Headroom-Wait.
const longestWait = time.Hour

// readLabels reads the labels of a request.
func readLabels(h http.Header, defaults Labels) (l Labels, err error) {
	l = defaults
	for _, label := range []struct {
		name string
		to   *string
	}{{"Job", &l.Job}, {"Region", &l.Region}, {"Class", &l.Class}, {"Account", &l.Account}} {
		values, sent := h[labelPrefix+label.name]
		if len(values) > 1 {
			return l, refusef(http.StatusBadRequest, "label", "there are %d headers %s%s; send one", len(values), labelPrefix, label.name)
		}
		if sent {
			*label.to = strings.TrimSpace(values[0])
		}
	}
	if text := strings.TrimSpace(h.Get(labelPrefix + "Wait")); text != "" {
		if l.Wait, err = time.ParseDuration(text); err != nil || l.Wait < 0 || l.Wait > longestWait {
			return l, refusef(http.StatusBadRequest, "label", "Headroom-Wait is %.40q; write a duration up to %s, such as 90s", text, longestWait)
		}
	}
	return l, nil
}

// wait lets a call wait for its units, unless the places of its token are taken. It has one
// until the call asks for a connection: then it has its units.
func (h *Handler) wait(ctx context.Context, c *call) (_ context.Context, done func(), crowded bool) {
	if c.labels.Wait <= 0 {
		return ctx, func() {}, false
	}
	if !h.waiting.Take(c.token.Name, 1, h.alone()) {
		return ctx, func() {}, true
	}
	done = sync.OnceFunc(func() { h.waiting.Give(c.token.Name, 1) })
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) { done() }})
	return meter.WithMaxWait(ctx, c.labels.Wait), done, false
}
