package web_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
)

// unread is a crowd that is smaller, because answers take memory of this machine.
const unread = "that do not read"

// crowds are what clients say before they say and read nothing more.
var crowds = map[string]string{
	"silent":             "",
	"with half a header": "GET /livez HTTP/1.1\r\nHost: local",
	"with half a body":   "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + theToken + "\r\nContent-Length: 100\r\n\r\n{",
	unread:               strings.Repeat("GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 300),
}

// TestACrowdKeepsNobodyOut has 1,100 clients hold a connection each, from one address or
// from many, and 20 others ask.
func TestACrowdKeepsNobodyOut(t *testing.T) {
	for name, sent := range crowds {
		for _, addresses := range []int{1, 200} {
			t.Run(fmt.Sprintf("%s from %d", name, addresses), func(t *testing.T) {
				var log bytes.Buffer
				opened := time.Now()
				room, sockets := web.DefaultConnections, 1100
				if name == unread {
					room, sockets = 40, 60
				}
				r := newRig(t, &web.Options{Connections: room, Log: slog.New(slog.NewTextHandler(&log, nil)), Timeouts: web.Timeouts{Header: time.Hour, Request: time.Hour, Answer: time.Hour, Idle: time.Hour}})
				r.token(theToken)
				s := r.serve()
				for n := range sockets {
					c := r.dialFrom(s, netip.AddrFrom4([4]byte{127, 0, 1, byte(n % addresses)}))
					go io.WriteString(c, sent) // it may be closed already
				}
				if name == unread { // while the server still writes to all of them, a new one is closed
					r.letIn(s, netip.MustParseAddr("127.0.2.0"))
				}
				began, slowest, served := time.Now(), time.Duration(0), 0
				for n := range 20 {
					for _, path := range []string{"/livez", "/readyz", "/api/v1/regions", "/"} {
						from := netip.AddrFrom4([4]byte{127, 0, 2, byte(n)})
						if status, err := r.askFrom(s, from, path); status != http.StatusOK {
							t.Errorf("%s asks for %s and gets %d, %v", from, path, status, err)
						} else {
							served++
						}
						slowest, began = max(slowest, time.Since(began)), time.Now()
					}
				}
				t.Logf(figure+"%d connections %s from %d addresses stand: %d of 80 others served, the slowest after %s", sockets, name, addresses, served, slowest.Round(100*time.Microsecond))
				most := 1 + int(time.Since(opened)/time.Minute) // it tells once a minute
				if lines := strings.Count(log.String(), "closed a connection"); lines < 1 || lines > most {
					t.Errorf("%d lines of the log tell of it:\n%s", lines, &log)
				}
				if a := r.ask("GET", "/metrics", ""); !strings.Contains(a.body, "ingestor_connections_closed_total{reason=") {
					t.Errorf("the metrics do not tell of it")
				}
			})
		}
	}
}

// TestOneOfAnAddressIsLetIn although others of its address hold all that it may have.
func TestOneOfAnAddressIsLetIn(t *testing.T) {
	r := newRig(t, &web.Options{Connections: 100, ConnectionsPerClient: 5})
	s := r.serve()
	from := netip.MustParseAddr("127.0.1.1")
	for range 10 {
		r.dialFrom(s, from)
	}
	for range 5 {
		if status, err := r.askFrom(s, from, "/livez"); status != http.StatusOK {
			t.Errorf("it gets %d, %v", status, err)
		}
	}
	if a := r.ask("GET", "/metrics", ""); strings.Contains(a.body, `ingestor_connections_closed_total{reason="client"} 0`) {
		t.Error("an address may have all connections")
	}
}

// TestRequestsOfAClientAreBounded: a client of a trusted proxy may have some requests under
// way, and others as many.
func TestRequestsOfAClientAreBounded(t *testing.T) {
	r := newRig(t, &web.Options{ConnectionsPerClient: 3, AnyHost: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	r.token(theToken)
	s := r.serve()
	const proxy, heavy, other = "127.0.0.1", "203.0.113.1", "203.0.113.2"
	held := make([]net.Conn, 0, 3)
	for range 3 {
		c := r.dialFrom(s, netip.MustParseAddr(proxy))
		_, err := io.WriteString(c, "POST /v1/reserve HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: "+heavy+"\r\nAuthorization: Bearer "+theToken+"\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
		r.Must(err)
		line, err := bufio.NewReader(c).ReadString('\n') // it waits for the body
		r.Must(err)
		if !strings.Contains(line, "100") {
			t.Fatalf("it says %s", line)
		}
		held = append(held, c)
	}
	for client, want := range map[string]int{heavy: http.StatusTooManyRequests, other: http.StatusOK} {
		if status, err := r.askFrom(s, netip.MustParseAddr(proxy), "/api/v1/regions", "X-Forwarded-For: "+client); status != want {
			t.Errorf("%s gets %d, %v", client, status, err)
		}
	}
	for _, c := range held {
		r.Must(c.Close())
	}
	r.letIn(s, netip.MustParseAddr(proxy), "X-Forwarded-For: "+heavy) // once the server knows that they are gone
}

// TestChoicesOfMetricsKeepNobodyOut: a client that scrapes many choices of metrics at once is
// refused all but some. Others may choose, and everybody gets all metrics.
func TestChoicesOfMetricsKeepNobodyOut(t *testing.T) {
	r := newRig(t, &web.Options{Metrics: metrics.New(&metrics.Options{Share: -1, Timeout: time.Hour})})
	s := r.serve()
	asked, release := r.hold()
	answers := make(chan string, 100)
	var all sync.WaitGroup
	scrape := func(from, path string) {
		all.Go(func() {
			status, err := r.askFrom(s, netip.MustParseAddr(from), path)
			answers <- fmt.Sprint(status, err)
		})
	}
	const heavy, other, mine = "127.0.1.1", "127.0.1.2", 4
	for n := range 50 {
		scrape(heavy, fmt.Sprintf("/metrics?name[]=m%d", n))
	}
	<-asked
	for range 50 - mine {
		if a := <-answers; a != "429 <nil>" {
			t.Fatalf("one too many gets %s", a)
		}
	}
	scrape(other, "/metrics?name[]=headroom_ledger_up")
	scrape(other, "/metrics")
	scrape(heavy, "/metrics?x=1")
	waitFor(t, "all the others to wait", func() bool { return strings.Count(stacks(), "kept.(*Store).Do(") == mine+3 })
	release()
	all.Wait()
	for range mine + 3 {
		if a := <-answers; a != "200 <nil>" {
			t.Errorf("one is answered %s", a)
		}
	}
}

// letIn asks until the server answers.
func (r *rig) letIn(s *serving, from netip.Addr, headers ...string) {
	r.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		status, err := r.askFrom(s, from, "/api/v1/regions", headers...)
		if status == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("%s is never let in: %d, %v", from, status, err)
		}
	}
}

// dialFrom connects to the server from an address of the loopback network.
func (r *rig) dialFrom(s *serving, from netip.Addr) net.Conn {
	r.Helper()
	how := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	c, err := how.DialContext(r.Context(), "tcp", s.address)
	r.Must(err)
	r.Cleanup(func() { _ = c.Close() })
	r.Must(c.SetDeadline(time.Now().Add(patience)))
	return c
}

// askFrom asks once, from an address of the loopback network.
func (r *rig) askFrom(s *serving, from netip.Addr, path string, headers ...string) (status int, err error) {
	r.Helper()
	return r.once(s, from, path, headers...)
}

// once is askFrom for a test that asks often: it remembers nothing of it.
func (r *rig) once(s *serving, from netip.Addr, path string, headers ...string) (status int, err error) {
	how := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	c, err := how.DialContext(r.Context(), "tcp", s.address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	headers = append([]string{"GET " + path + " HTTP/1.1", "Host: localhost", "Connection: close"}, headers...)
	if _, err := io.WriteString(c, strings.Join(headers, "\r\n")+"\r\n\r\n"); err != nil {
		return 0, err
	}
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return a.StatusCode, err
}
