package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// pair is a proxy in front of two upstreams that are equal, west and east.
type pair struct {
	*rig
	west, east *httptest.Server
	got        []string // which of them got a call, and with what
}

func newPair(t *testing.T, grant Grant) *pair {
	p := &pair{}
	serve := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			p.got = append(p.got, strings.TrimSpace(fmt.Sprint(name, " ", req.URL, " ", req.Header.Get("X-West-Key"), req.Header.Get("X-East-Key"), " ", string(body))))
			if text := fmt.Sprint(req.Header); strings.Contains(text, theToken) {
				t.Errorf("%s got the token: %s", name, text)
			}
			switch conn, rw, err := net.Conn(nil), (*bufio.ReadWriter)(nil), error(nil); {
			case req.Header.Get("Upgrade") != "":
				if conn, rw, err = http.NewResponseController(w).Hijack(); err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
				_ = rw.Flush()
				_, _ = io.Copy(conn, rw) // an echo, until the program leaves
				return
			case req.URL.Query().Has("uploadType"):
				w.Header().Set("Location", "http://"+req.Host+"/v1/ask?upload_id=7")
			}
			w.Header().Set(meter.SpilledHeader, "moon")
			w.Header().Set("Link", "<http://"+req.Host+"/v1/list?page=2>; rel=next")
			_, _ = io.WriteString(w, "key-of-west key-of-east")
		}))
		t.Cleanup(s.Close)
		return s
	}
	p.west, p.east = serve("west"), serve("east")
	text := strings.NewReplacer("WEST", p.west.Listener.Addr().String(), "EAST", p.east.Listener.Addr().String()).Replace(`
revision: 1
upstreams:
  west:
    hosts: ["WEST"]
    api_key: {header: X-West-Key}
    error_format: openai
    accounts: {default: {}, second: {}}
    spill: [west@second, east@default]
    pools: {calls: {quota: 1, windows: [{per: day}]}}
    resumable: upload_id
    methods: {list: {route: GET /v1/list, cost: 1}, ask: {route: [POST /v1/ask, PUT /v1/ask], cost: 1}, live: {route: GET /v1/live, upgrade: true, cost: 1}}
  east:
    resumable: upload_id
    hosts: ["EAST"]
    api_key: {header: X-East-Key}
    error_format: google
    pools: {calls: {quota: 1, windows: [{per: day}]}}
    methods: {list: {route: GET /v1/list, cost: 1}, ask: {route: [POST /v1/ask, PUT /v1/ask], cost: 1}, live: {route: GET /v1/live, upgrade: true, cost: 1}}
`)
	costs, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.rig = &rig{t: t, log: &buffer{}}
	if p.ledger, err = quota.New(costs, memstore.New(nil), nil); err != nil {
		t.Fatal(err)
	}
	keys := map[string]meter.KeySource{"west": meter.Key("key-of-west"), "west@second": meter.Key("key-of-second"), "east": meter.Key("key-of-east")}
	if p.handler, err = New(p.ledger, tokensOf(t, grant), &Options{Keys: keys, Log: slog.New(slog.NewTextHandler(p.log, nil))}); err != nil {
		t.Fatal(err)
	}
	p.server = httptest.NewServer(p.handler)
	t.Cleanup(p.server.Close)
	return p
}

// ask calls west, and returns the answer and which upstream got what.
func (p *pair) ask(verb, body string, header ...string) (answered, string) {
	p.t.Helper()
	p.got = nil
	req := p.request(verb, map[string]string{"GET": "/west/v1/list", "POST": "/west/v1/ask"}[verb], strings.NewReader(body), header...)
	req.Header.Del("X-Api-Key")
	req.Header.Set("X-West-Key", theToken)
	return p.send(req), strings.Join(p.got, "; ")
}

func TestSpill(t *testing.T) {
	p := newPair(t, Grant{Upstreams: []string{"west", "east"}})
	first, got := p.ask("POST", "one")
	if got != "west /v1/ask key-of-west one" || first.Header.Get(meter.SpilledHeader) != "" {
		t.Errorf("west answered %v, and got %q", first.Header, got)
	}
	second, got := p.ask("POST", "two", "X-Anything", "key-of-west") // as if the program knew it
	if got != "east /v1/ask key-of-east two" || second.Header.Get(meter.SpilledHeader) != "east@default" {
		t.Errorf("east answered %v, and got %q", second.Header, got)
	}
	if strings.Contains(second.body, "key-of-") {
		t.Errorf("the answer has keys: %s", second.body)
	}
	if link := second.Header.Get("Link"); link != "<"+p.server.URL+"/east/v1/list?page=2>; rel=next" {
		t.Errorf("the next page is %s", link)
	}
	third, got := p.ask("POST", "three")
	if got != "" || third.StatusCode != http.StatusTooManyRequests || third.Header.Get(meter.RefusedHeader) != "refused" || !strings.Contains(third.body, "reserve west/calls: refused") {
		t.Errorf("%d %v %s, got %q", third.StatusCode, third.Header, third.body, got)
	}
}

// A WebSocket goes to the other upstream, too, and its frames with it.
func TestSpillOfAWebSocket(t *testing.T) {
	p := newPair(t, Grant{Upstreams: []string{"west", "east"}})
	p.ask("GET", "")
	p.got = nil
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /west/v1/live HTTP/1.1\r\nHost: localhost\r\nX-West-Key: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: c2FtcGxl\r\nSec-WebSocket-Version: 13\r\n\r\n", theToken)
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.WriteString(conn, "frame\n"); err != nil {
		t.Fatal(err)
	}
	frame, err := reader.ReadString('\n')
	if got := strings.Join(p.got, "; "); resp.StatusCode != http.StatusSwitchingProtocols || frame != "frame\n" || err != nil || got != "east /v1/live key-of-east" || resp.Header.Get(meter.SpilledHeader) != "east@default" {
		t.Errorf("%s %v, a frame %q, %v; got %q", resp.Status, resp.Header, frame, err, got)
	}
}

// The chunks of an upload follow its first request to the other upstream, and cost nothing.
func TestSpillOfAnUpload(t *testing.T) {
	p := newPair(t, Grant{Upstreams: []string{"west", "east"}})
	p.ask("GET", "")
	p.got = nil
	begin := p.request("POST", "/west/v1/ask?uploadType=resumable", strings.NewReader("{}"))
	begin.Header.Del("X-Api-Key")
	begin.Header.Set("X-West-Key", theToken)
	begun := p.send(begin)
	address, own := strings.CutPrefix(begun.Header.Get("Location"), p.server.URL)
	if got := strings.Join(p.got, "; "); !own || !strings.HasPrefix(address, "/east/") || got != "east /v1/ask?uploadType=resumable key-of-east {}" {
		t.Fatalf("the upload goes on at %q; got %q", begun.Header.Get("Location"), got)
	}
	p.got = nil
	chunk := p.request("PUT", address, strings.NewReader("chunk"), "Content-Range", "bytes 0-4/5")
	chunk.Header.Del("X-Api-Key")
	chunk.Header.Set("X-East-Key", theToken)
	done := p.send(chunk)
	if got := strings.Join(p.got, "; "); done.StatusCode != http.StatusOK || got != "east /v1/ask?upload_id=7 key-of-east chunk" {
		t.Errorf("%s %s; got %q", done.Status, done.body, got)
	}
	if used, err := p.ledger.View().Usage(t.Context(), "east", ""); err != nil || used[0].Windows[0].Used != 1 {
		t.Errorf("%v, %v: want the first request alone", used, err)
	}
}

// A call may go to another account of its upstream, if the token may.
func TestSpillToAnAccount(t *testing.T) {
	p := newPair(t, Grant{Upstreams: []string{"west"}, Accounts: []string{"default", "second"}})
	p.ask("GET", "")
	answer, got := p.ask("GET", "")
	if got != "west /v1/list key-of-second" || answer.Header.Get(meter.SpilledHeader) != "west@second" {
		t.Errorf("west got %q, and answered %v", got, answer.Header)
	}
}

// An upstream that cannot be reached after all is named, in the form of errors that the program understands.
func TestSpillToNobody(t *testing.T) {
	p := newPair(t, Grant{Upstreams: []string{"west", "east"}})
	p.ask("GET", "")
	p.east.Close()
	answer, _ := p.ask("GET", "")
	if answer.StatusCode != http.StatusBadGateway || !strings.Contains(answer.body, "east could not be reached") || !strings.Contains(answer.body, `"type":`) {
		t.Errorf("%d %s", answer.StatusCode, answer.body)
	}
	if used, err := p.ledger.View().Usage(context.Background(), "east", ""); err != nil || used[0].Windows[0].Used != 0 {
		t.Errorf("%v, %v: a call is charged that was not sent", used, err)
	}
}

// A call spills no further than its token may go.
func TestSpillAndRights(t *testing.T) {
	for name, grant := range map[string]Grant{
		"upstream": {Upstreams: []string{"west"}},
		"budget":   {Upstreams: []string{"west", "east"}, Budget: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, grant)
			p.ask("GET", "")
			answer, got := p.ask("GET", "")
			if want := map[string]string{"upstream": "refused", "budget": "budget"}[name]; got != "" || answer.Header.Get(meter.RefusedHeader) != want {
				t.Errorf("got %q, and answered %d %s", got, answer.StatusCode, answer.body)
			}
		})
	}
	p := newPair(t, Grant{Upstreams: []string{"west", "east"}, Budget: "2"})
	for range 2 {
		if answer, _ := p.ask("GET", ""); answer.StatusCode != http.StatusOK {
			t.Errorf("%d %s", answer.StatusCode, answer.body)
		}
	}
	if answer, _ := p.ask("GET", ""); answer.Header.Get(meter.RefusedHeader) != "budget" {
		t.Errorf("%d %s", answer.StatusCode, answer.body)
	}
}
