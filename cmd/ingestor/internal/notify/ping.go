package notify

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Pinger tells a dead man's switch that runs begin and end, with the protocol of healthchecks.io: /start, and
// then the exit code. It never delays a run. Nil tells nobody.
type Pinger struct {
	address atomic.Pointer[string]
	log     *slog.Logger
	client  *http.Client

	mu    sync.Mutex
	last  map[string]chan struct{} // by job: closed when its last ping has ended
	under sync.WaitGroup
}

// NewPinger returns a pinger that asks no address yet.
func NewPinger(log *slog.Logger) *Pinger {
	p := &Pinger{log: log, client: newClient(), last: map[string]chan struct{}{}}
	p.Set("")
	return p
}

// Set sets the address. An empty one is asked nothing.
func (p *Pinger) Set(address string) {
	if p != nil {
		p.address.Store(&address)
	}
}

// CheckPing returns what is wrong with the address of a switch. The error does not show it.
func CheckPing(address string) error {
	if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("it is no address, as https://hc-ping.com/KEY/{job}")
	}
	return nil
}

// Host is what may be shown of an address that may hold a secret.
func Host(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// Begin says that a run of a job has begun.
func (p *Pinger) Begin(job string) { p.ping(job, "start", "") }

// End says how a run of a job ended.
func (p *Pinger) End(job string, code int, text string) { p.ping(job, strconv.Itoa(code), text) }

// The tries of a ping, and the time of each.
const (
	pings      = 3
	pingWithin = 10 * time.Second
)

func (p *Pinger) ping(job, what, text string) {
	if p == nil {
		return
	}
	address := *p.address.Load()
	if address == "" {
		return
	}
	to, err := url.Parse(strings.ReplaceAll(address, "{job}", url.PathEscape(job)))
	if err != nil {
		return // the settings were checked
	}
	to = to.JoinPath(what)
	ended := make(chan struct{})
	p.mu.Lock()
	before := p.last[job] // so that /start does not arrive last
	p.last[job] = ended
	p.mu.Unlock()
	p.under.Go(func() {
		defer close(ended)
		if before != nil {
			<-before
		}
		for try := 1; ; try++ {
			if err = p.once(to.String(), text); err == nil {
				return
			}
			if try == pings {
				break
			}
			time.Sleep(time.Duration(try) * time.Second)
		}
		p.log.Warn("cannot ping", "job", job, "error", err)
	})
}

func (p *Pinger) once(address, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), pingWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(cut(text)))
	if err != nil {
		return errors.New("the address of ping is wrong")
	}
	req.Header.Set("User-Agent", "headroom-ingestor")
	return do(p.client, req)
}

// Wait waits for pings under way, for a time at most.
func (p *Pinger) Wait(most time.Duration) {
	if p == nil {
		return
	}
	done := make(chan struct{})
	go func() { p.under.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(most):
	}
}
