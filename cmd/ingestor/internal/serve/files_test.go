package serve

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/quota"
)

// TestBoundsFitTheFiles: connections of all listeners together leave room for the other files.
func TestBoundsFitTheFiles(t *testing.T) {
	usual := bounds{1000, 1024}
	for _, c := range []struct {
		open              uint64
		serving, proxying int
		want              bounds
	}{
		{0, 1, 1, usual},
		{65536, 2, 1, usual},
		{1160, 1, 0, usual},
		{1159, 1, 0, bounds{999, 1022}},
		{1024, 1, 0, bounds{864, 884}},
		{1024, 2, 0, bounds{432, 442}},
		{1024, 1, 1, bounds{283, 290}},
		{1024, 0, 1, bounds{421, 432}},
		{256, 1, 0, bounds{96, 98}},
		{64, 2, 1, bounds{8, 8}},
	} {
		got, _ := usual.fit(c.open, c.serving, c.proxying)
		if got != c.want {
			t.Errorf("of %d files: %v, want %v", c.open, got, c.want)
		}
		if files := ownFiles + c.serving*got.web + 2*c.proxying*got.proxy; c.open > 200 && files > int(c.open) {
			t.Errorf("of %d files it may open %d", c.open, files)
		}
	}
}

// outOfFiles is a listener that fails so often, before it is closed.
type outOfFiles struct {
	net.Listener
	times int
}

func (f *outOfFiles) Accept() (net.Conn, error) {
	if f.times == 0 {
		return nil, net.ErrClosed
	}
	f.times--
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

func (f *outOfFiles) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:8080"))
}

// TestErrorsOfListenersAreTold: once a minute in the log, and each in the metrics.
func TestErrorsOfListenersAreTold(t *testing.T) {
	var said bytes.Buffer
	clock := quota.NewSimClock(time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC))
	a := &session.Session{Log: slog.New(slog.NewTextHandler(&said, nil))}
	measured := metrics.New(&metrics.Options{Log: a.Log})
	complaints := guard.NewComplaints(clock)
	for _, times := range []int{3, 2} {
		l := telling(a, &outOfFiles{times: times}, measured, complaints)
		for {
			if _, err := l.Accept(); errors.Is(err, net.ErrClosed) {
				break
			}
		}
		clock.Advance(time.Minute)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "too many open files") || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "skipped=2") {
		t.Errorf("it logs\n%s", &said)
	}
	w := httptest.NewRecorder()
	measured.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if !strings.Contains(w.Body.String(), "ingestor_accept_errors_total 5\n") {
		t.Errorf("the metrics are\n%s", w.Body)
	}
}
