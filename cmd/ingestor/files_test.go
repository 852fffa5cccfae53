package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/metrics"
	"github.com/headroom-quota/headroom/internal/web/guard"
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
	a := &app{log: slog.New(slog.NewTextHandler(&said, nil))}
	measured := metrics.New(&metrics.Options{Log: a.log})
	complaints := guard.NewComplaints(clock)
	for _, times := range []int{3, 2} {
		l := a.telling(&outOfFiles{times: times}, measured, complaints)
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

// TestCrowdWithFewFiles: a crowd that opens more connections than the process may open files
// takes the place of nobody, also where the limit is low.
func TestCrowdWithFewFiles(t *testing.T) {
	f := newFolder(t, 1000, "")
	f.files = 256
	s := f.serve("INGESTOR_PROBE_LISTEN=127.0.0.1:0")
	ask := func(from, at string) (string, error) {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialFrom(from)}, Timeout: time.Minute}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
		if err != nil {
			return "", err
		}
		r, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err == nil && r.StatusCode != http.StatusOK {
			err = errors.New(r.Status)
		}
		return string(text), err
	}
	if _, err := ask("127.0.2.1", s.url.String()+"/readyz"); err != nil { // all its own files are open now
		t.Fatal(err)
	}
	for n := range 400 {
		c, err := dialFrom(netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + n%20)}).String())(t.Context(), "tcp", s.url.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	for n, at := range []string{s.url.String(), "http://" + s.probes} {
		if _, err := ask("127.0.2.2", at+"/readyz"); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	text, err := ask("127.0.2.3", s.url.String()+"/metrics")
	if err != nil || !strings.Contains(text, "ingestor_accept_errors_total 0\n") || strings.Contains(text, `ingestor_connections_closed_total{reason="all"} 0`) {
		t.Errorf("%v\n%s", err, text)
	}
	s.stop()
	if said := s.said.String(); strings.Count(said, "LimitNOFILE") != 1 || !strings.Contains(said, `"connections":96`) {
		t.Errorf("it says\n%s", said)
	}
}

// TestInsecureIsSaid where other machines can reach the server in plain HTTP.
func TestInsecureIsSaid(t *testing.T) {
	f := newFolder(t, 1000, "")
	for listen, want := range map[string]bool{"0.0.0.0:0": true, "127.0.0.1:0": false} {
		cmd := f.program(t.Context(), "serve", "--listen", listen, "--insecure")
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = in, in
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
		said := false
		for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "serving on "); {
			said = said || strings.Contains(lines.Text(), "insecure: ")
		}
		if said != want {
			t.Errorf("at %s it says so: %v", listen, said)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	}
}

// dialFrom dials from an address of this machine.
func dialFrom(from string) func(ctx context.Context, network, at string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return d.DialContext
}
