package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// get asks for JSON, and returns the protocol in which it was sent.
func (s *served) get(client *http.Client, path string, into any) (protocol string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url.String()+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %s", path, r.Status)
	}
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		s.t.Fatal(err)
	}
	return r.Proto
}

// TestServe checks that a server shows what another process fetches, before and after, in
// the words of the commands.
func TestServe(t *testing.T) {
	t.Parallel()
	t.Run("catalog_in_a_file", func(t *testing.T) { testServe(t, newFolder(t, 1000, "")) })
	t.Run("catalog_in_postgres", func(t *testing.T) {
		f := newFolder(t, 1000, "")
		text, err := os.ReadFile(f.path("ingestor.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		f.write("ingestor.yaml", string(text)+"\ndatabase: "+pgtest.Shared(t)+"\n")
		testServe(t, f)
		if _, err := os.Stat(f.path("catalog.db")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is a file, too: %v", err)
		}
	})
}

func testServe(t *testing.T, f *folder) {
	s := f.serve()
	var chart struct {
		Entries []any
		Stale   bool
	}
	var runs struct{ Runs json.RawMessage }
	if s.get(http.DefaultClient, "/api/v1/runs", &runs); string(runs.Runs) != "[]" {
		t.Errorf("before the first run it shows %s", runs.Runs)
	}
	if r := f.run("run", "--once", "--job", "trending", "--region", "US"); r.code != console.ExitDone {
		t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if s.get(http.DefaultClient, "/api/v1/trending?region=US", &chart); len(chart.Entries) == 0 || chart.Stale {
		t.Errorf("the chart has %d entries, stale %v", len(chart.Entries), chart.Stale)
	}
	s.get(http.DefaultClient, "/api/v1/runs", &runs)
	if printed := f.run("runs", "--output", "json").stdout; compact(t, []byte(printed)) != compact(t, runs.Runs) || strings.Contains(printed, "0001-01-01") {
		t.Errorf("the command prints\n%s\nthe server\n%s", printed, runs.Runs)
	}
	for path, args := range map[string][]string{
		"trending?region=US": {"trending", "US", "--limit", "500"},
		"search?q=live":      {"search", "live", "--limit", "20"},
	} {
		var answered json.RawMessage
		s.get(http.DefaultClient, "/api/v1/"+path, &answered)
		if printed := f.run(append(args, "--output", "json")...).stdout; compact(t, []byte(printed)) != compact(t, answered) {
			t.Errorf("%v prints\n%s\nthe server\n%s", args, printed, answered)
		}
	}
	s.stop()
}

// compact is JSON without its spaces.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	same, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(same)
}

func TestServeTLS(t *testing.T) {
	f := newFolder(t, 1000, "")
	known := f.certificate()
	s := f.serve("INGESTOR_TLS_CERT="+f.path("cert.pem"), "INGESTOR_TLS_KEY="+f.path("key.pem"))
	if s.url.Scheme != "https" {
		t.Errorf("it serves on %s", s.url)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: known, MinVersion: version, MaxVersion: version},
		}}
		var into map[string]any
		if protocol := s.get(client, "/api/v1/regions", &into); protocol != "HTTP/2.0" {
			t.Errorf("it speaks %s", protocol)
		}
		client.CloseIdleConnections()
	}
	old := &tls.Dialer{Config: &tls.Config{RootCAs: known, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}} //nolint:gosec // it must be refused
	if c, err := old.DialContext(t.Context(), "tcp", s.url.Host); err == nil {
		t.Error("it speaks TLS 1.1", c.Close())
	}
	s.stop()
}

// certificate writes one of 127.0.0.1 into cert.pem and key.pem, and returns who knows it.
func (f *folder) certificate() *x509.CertPool {
	f.t.Helper()
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	f.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	f.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	parsed, err := x509.ParseCertificate(der)
	must(err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// TestProbesHaveAListenerOfTheirOwn, which answers nothing else.
func TestProbesHaveAListenerOfTheirOwn(t *testing.T) {
	f := newFolder(t, 1000, "")
	s := f.serve("INGESTOR_PROBE_LISTEN=127.0.0.1:0")
	_, probes, found := strings.Cut(s.said.String(), "probes on ")
	if !found {
		t.Fatalf("it says %s", s.said)
	}
	probes, _, _ = strings.Cut(probes, "\n")
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusNotFound, "/api/v1/quota": http.StatusNotFound, "/": http.StatusNotFound} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, probes+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "10.1.2.3:8081" // as a kubelet asks
		a, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != want || a.Body.Close() != nil {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if r := f.run("probe", probes+"/readyz"); r.code != console.ExitDone {
		t.Errorf("probe: %d\n%s", r.code, r.stderr)
	}
	s.stop()
	if r := f.run("probe", probes+"/readyz"); r.code != console.ExitDown {
		t.Errorf("probe of a server that stopped: %d\n%s", r.code, r.stderr)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(probes, "http://")); err == nil { //nolint:noctx // it is ours
		t.Error("it still listens for probes")
	}
	if r := f.run("serve", "--probe-listen", "8081"); r.code != console.ExitConfig || !strings.Contains(r.stderr, "--probe-listen") {
		t.Errorf("a port alone: %d\n%s", r.code, r.stderr)
	}
}
