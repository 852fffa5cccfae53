package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// TestCrowdWithFewFiles: a crowd that opens more connections than the process may open files
// takes the place of nobody, also where the limit is low.
func TestCrowdWithFewFiles(t *testing.T) {
	t.Parallel()
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
