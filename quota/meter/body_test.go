package meter_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// bodyPrices are those of an upstream whose price and key stand in the body.
const bodyPrices = `
revision: 1
upstreams:
  llm:
    hosts: [llm.example.com]
    request_buffer: 4096
    pools:
      tokens: {quota: 1000000000, windows: [{per: 1m}]}
      model: {quota: 1000000000, windows: [{per: 1m}], by: {body: model, default: other}, max_keys: 1000}
      kinds: {quota: 1000000000, windows: [{per: 1m}]}
      sizes: {quota: 1000000000, windows: [{per: 1m}]}
    methods:
      ask: {route: POST /ask, charge: {model: 1, tokens: {estimate: {body: opt.max, default: 100}}}}
      query: {route: POST /query, charge: {kinds: {estimate: {body: query, match: '^\s*(mutation)', cases: {mutation: 5}, default: 1}}}}
      only: {route: POST /only, charge: {tokens: {estimate: {body: max, max: 500000, default: 1}}}}
      size: {route: POST /size, charge: {model: 1, sizes: {estimate: {bytes: body}}}}
      put: {route: POST /put, charge: {sizes: 1}}
  watched:
    hosts: [watched.example.com]
    mode: observe
    request_buffer: 4096
    pools: {model: {quota: 1000, windows: [{per: 1m}], by: {body: model, default: other}}}
    methods: {ask: {route: POST /ask, charge: {model: 1}}}
`

// asker sends bodies to that upstream, and says what they were charged.
type asker struct {
	t      *testing.T
	ledger *quota.Ledger
	m      *meter.Transport
	got    []byte // the body that the upstream got
	sent   bool
}

func newAsker(t *testing.T) *asker {
	a := &asker{t: t, ledger: newLedger(t, bodyPrices, quota.NewSimClock(noon))}
	a.m = newTransport(t, a.ledger, &meter.Options{Logger: discard, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		a.sent = true
		a.got, _ = io.ReadAll(req.Body)
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, req.Body.Close()
	})})
	return a
}

// The ways in which a body comes.
var comes = map[string]func(body []byte) (io.Reader, int64){
	"again":          func(b []byte) (io.Reader, int64) { return bytes.NewReader(b), int64(len(b)) },
	"once":           func(b []byte) (io.Reader, int64) { return io.MultiReader(bytes.NewReader(b)), int64(len(b)) },
	"unknown length": func(b []byte) (io.Reader, int64) { return io.MultiReader(iotest.HalfReader(bytes.NewReader(b))), -1 },
}

// ask sends a body, and returns what was charged, by pool.
func (a *asker) ask(path, way string, body []byte, header ...string) (map[string]int64, error) {
	a.t.Helper()
	before := a.used()
	from, length := comes[way](body)
	req, err := http.NewRequestWithContext(a.t.Context(), "POST", "https://"+path, from)
	if err != nil {
		a.t.Fatal(err)
	}
	req.ContentLength = length
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	a.sent, a.got = false, nil
	resp, err := a.m.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
		if !bytes.Equal(a.got, body) {
			a.t.Errorf("the upstream got %d bytes of %d", len(a.got), len(body))
		}
	} else if a.sent {
		a.t.Errorf("a call that was refused (%v) was sent", err)
	}
	charged := a.used()
	for pool, units := range before {
		if charged[pool] -= units; charged[pool] == 0 {
			delete(charged, pool)
		}
	}
	return charged, err
}

func (a *asker) used() map[string]int64 {
	a.t.Helper()
	used := map[string]int64{}
	for _, name := range []string{"llm", "watched"} {
		all, err := a.ledger.View().Usage(a.t.Context(), name, quota.DefaultAccount)
		if err != nil {
			a.t.Fatal(err)
		}
		for _, u := range all {
			if u.Windows[0].Used != 0 {
				used[strings.TrimPrefix(u.Pool.String(), "llm/")] = u.Windows[0].Used
			}
		}
	}
	return used
}

// TestBodyOfARequest: what a body costs does not depend on how long it is and how it comes. A
// body that cannot be read is refused.
func TestBodyOfARequest(t *testing.T) {
	pad := strings.Repeat("x", 3000)
	far := strings.Repeat(" ", 3500)
	for name, c := range map[string]struct {
		path, body string
		header     []string
		want       string // what is charged; "": it is refused
	}{
		"the key at the end":            {"ask", `{"text":"` + pad + `","model":"big"}`, nil, "map[model:big:1 tokens:100]"},
		"the price at the end":          {"only", `{"text":"` + pad + `","max":90000}`, nil, "map[tokens:90000]"},
		"padding before all":            {"ask", far + `{"model":"big"}`, nil, "map[model:big:1 tokens:100]"},
		"an escaped name":               {"ask", `{"\u006dodel":"big","o\u0070t":{"max":7}}`, nil, "map[model:big:1 tokens:7]"},
		"an escaped key":                {"ask", `{"model":"` + strings.Repeat(`\u0078`, 60) + `"}`, nil, "map[model:" + strings.Repeat("x", 60) + ":1 tokens:100]"},
		"the larger of two":             {"only", `{"max":90000,"max":3}`, nil, "map[tokens:90000]"},
		"the larger, last":              {"only", `{"max":3,"max":90000}`, nil, "map[tokens:90000]"},
		"the larger in another object":  {"ask", `{"opt":{"max":90000},"opt":{"max":3}}`, nil, "map[model:other:1 tokens:90000]"},
		"a second one that is null":     {"only", `{"max":90000,"max":null}`, nil, "map[tokens:90000]"},
		"a second one that is a text":   {"only", `{"max":90000,"max":"many"}`, nil, "map[tokens:90000]"},
		"a second object without it":    {"ask", `{"opt":{"max":3},"opt":{}}`, nil, "map[model:other:1 tokens:100]"},
		"a small one and a list":        {"ask", `{"opt":{"max":3,"max":[]}}`, nil, "map[model:other:1 tokens:100]"},
		"two keys":                      {"ask", `{"model":"a","model":"big"}`, nil, ""},
		"two texts of JSON":             {"ask", `{"model":"big"}{"model":"a"}`, nil, ""},
		"two prices in two texts":       {"only", `{"max":90000} {"max":3}`, nil, "map[tokens:90000]"},
		"more behind it":                {"only", `{"max":90000} hello`, nil, ""},
		"words that JSON does not have": {"only", `{"x":NaN,"max":90000}`, nil, ""},
		"a comma too many":              {"ask", `{"model":"big",}`, nil, ""},
		"UTF-16":                        {"ask", utf16LE(`{"model":"big"}`), nil, ""},
		"UTF-16 the other way":          {"ask", "\x00{\x00}", []string{"Content-Type", "text/plain"}, ""},
		"declared JSON that is none":    {"ask", `/**/{"model":"big"}`, []string{"Content-Type", "application/json"}, ""},
		"a mark before it":              {"ask", "\xef\xbb\xbf" + `{"model":"big"}`, nil, "map[model:big:1 tokens:100]"},
		"declared as events":            {"ask", `{"model":"big"}`, []string{"Content-Type", "text/event-stream"}, "map[model:big:1 tokens:100]"},
		"declared as lines":             {"ask", `{"model":"big"}`, []string{"Content-Type", "application/x-ndjson"}, "map[model:big:1 tokens:100]"},
		"a form":                        {"ask", "model=big&max=3", []string{"Content-Type", "application/x-www-form-urlencoded"}, "map[model:big:1 tokens:100]"},
		"parts":                         {"ask", "--x\r\nContent-Disposition: form-data; name=model\r\n\r\nbig\r\n--x--", []string{"Content-Type", "multipart/form-data; boundary=x"}, "map[model:other:1 tokens:100]"},
		"gzip":                          {"ask", gzipText(`{"model":"big"}`), []string{"Content-Encoding", "gzip"}, "map[model:big:1 tokens:100]"},
		"gzip with more behind it":      {"ask", gzipText(`{"model":"big"}`) + "more", []string{"Content-Encoding", "gzip"}, ""},
		"gzip that is long":             {"ask", gzipText(`{"text":"` + pad + pad + `","model":"big"}`), []string{"Content-Encoding", "gzip"}, ""},
		"gzip of which the length costs": {
			"size", gzipText(`{"model":"big","text":"` + pad + `"}`),
			[]string{"Content-Encoding", "gzip"},
			fmt.Sprintf("map[model:big:1 sizes:%d]", len(pad)+25),
		},
		"brotli":                    {"ask", `{"model":"big"}`, []string{"Content-Encoding", "br"}, ""},
		"a second encoding":         {"ask", `{"model":"big"}`, []string{"Content-Encoding", "identity", "Content-Encoding", "br"}, ""},
		"a long key":                {"ask", `{"model":"` + strings.Repeat("m", 2000) + `"}`, nil, "map[model:~:1 tokens:100]"},
		"a price with many digits":  {"only", `{"max":90000.` + strings.Repeat("0", 3000) + `}`, nil, "map[tokens:90000]"},
		"a text with much before":   {"query", `{"query":"` + strings.Repeat(" ", 2000) + `mutation {a}"}`, nil, "map[kinds:5]"},
		"a long text":               {"query", `{"query":"mutation {` + pad + `}"}`, nil, "map[kinds:5]"},
		"two texts":                 {"query", `{"query":"mutation {a}","query":"query {a}"}`, nil, "map[kinds:5]"},
		"a body that costs nothing": {"put", strings.Repeat(pad, 5), []string{"Content-Encoding", "br"}, "map[sizes:1]"},
		"nothing":                   {"ask", "", []string{"Content-Type", "application/json"}, "map[model:other:1 tokens:100]"},
	} {
		for way := range comes {
			t.Run(name+"/"+way, func(t *testing.T) {
				got, err := newAsker(t).ask("llm.example.com/"+c.path, way, []byte(c.body), c.header...)
				switch {
				case err != nil && (c.want != "" || !errors.Is(err, quota.ErrBadInput) || len(got) > 0):
					t.Errorf("%v; %v was charged", err, got)
				case err == nil && strings.Contains(c.want, "~"): // a long key is hashed
					if len(got) != 2 || got["model:other"] != 0 {
						t.Errorf("%v was charged", got)
					}
				case err == nil && fmt.Sprint(got) != c.want:
					t.Errorf("%v was charged, want %q", got, c.want)
				}
			})
		}
	}
}

// TestALongBody: one that is longer than request_buffer and cannot be had again is refused,
// with the name of that setting.
func TestALongBody(t *testing.T) {
	long := []byte(`{"text":"` + strings.Repeat("x", 5000) + `","model":"big"}`)
	for way, want := range map[string]bool{"again": true, "once": false, "unknown length": false} {
		a := newAsker(t)
		got, err := a.ask("llm.example.com/ask", way, long)
		var body *meter.BodyError
		switch {
		case want && (err != nil || got["model:big"] != 1):
			t.Errorf("%s: %v %v", way, got, err)
		case !want && (!errors.As(err, &body) || !body.TooLong || !strings.Contains(err.Error(), "4096 bytes of request_buffer")):
			t.Errorf("%s: %v", way, err)
		}
		if !want {
			resp := meter.As429(&http.Request{}, err) //nolint:bodyclose // it is in memory
			if resp == nil || resp.StatusCode != http.StatusRequestEntityTooLarge || resp.Header.Get(meter.RefusedHeader) != "body" {
				t.Errorf("%s: the answer is %v", way, resp)
			}
		}
		if got, err := a.ask("watched.example.com/ask", way, long); err != nil || len(got) != 1 {
			t.Errorf("%s, observed: %v %v", way, got, err)
		}
		if got, err := a.ask("llm.example.com/put", way, long); err != nil || got["sizes"] != 1 {
			t.Errorf("%s, at a fixed price: %v %v", way, got, err)
		}
	}
}

// TestABodyThatBreaksOff: the price of a body that ends in an error is not known, so the call
// is not sent.
func TestABodyThatBreaksOff(t *testing.T) {
	broken := errors.New("broken off")
	a := newAsker(t)
	req, _ := http.NewRequest("POST", "https://llm.example.com/ask", io.MultiReader(strings.NewReader(`{"text":`), iotest.ErrReader(broken)))
	if _, err := a.m.RoundTrip(req); !errors.Is(err, broken) { //nolint:bodyclose // there is none
		t.Error(err)
	}
	if a.sent || len(a.used()) > 0 {
		t.Errorf("it was sent, and %v charged", a.used())
	}
}

// TestKeptBodies: who keeps bodies is asked before, and bodies are let go once they are sent.
func TestKeptBodies(t *testing.T) {
	full := errors.New("full")
	for _, most := range []int64{100 << 10, 10 << 10} {
		var asked int64
		l := newLedger(t, strings.Replace(bodyPrices, "4096", "1048576", 1), quota.NewSimClock(noon))
		m := newTransport(t, l, &meter.Options{Logger: discard, Keep: func(_ *http.Request, n int64) error {
			if asked += n; asked > most {
				return full
			}
			return nil
		}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, req.Body)
			return &http.Response{StatusCode: 200, Body: http.NoBody}, req.Body.Close()
		})})
		for _, size := range []int{10, 5 << 10, 40 << 10} {
			asked = 0
			body := `{"text":"` + strings.Repeat("x", size) + `"}`
			req, _ := http.NewRequest("POST", "https://llm.example.com/ask", io.MultiReader(strings.NewReader(body)))
			req.ContentLength = int64(len(body))
			_, err := m.RoundTrip(req) //nolint:bodyclose // there is none
			if fits := int64(size) < most; fits != (err == nil) || !fits && !errors.Is(err, full) || asked < int64(size) && fits || asked > 3*int64(size)+100 && fits {
				t.Errorf("%d bytes of %d: %v, asked for %d", size, most, err, asked)
			}
		}
	}
}

// TestRandomBodies: whatever a body is, a call is charged what its JSON says, as any server may
// read it, or it is not sent.
func TestRandomBodies(t *testing.T) {
	n, seed := 4000, uint64(25)
	if os.Getenv("HEADROOM_SOAK") == "1" {
		n, seed = 100_000, rand.Uint64()
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var a *asker
	granted, refused := 0, 0
	for i := range n {
		if i%500 == 0 { // not too many keys
			a = newAsker(t)
		}
		b := randomBody{Rand: random}
		b.make()
		way := []string{"again", "once", "unknown length"}[random.IntN(3)]
		got, err := a.ask("llm.example.com/ask", way, b.sent, b.header...)
		if err != nil {
			if refused++; !errors.Is(err, quota.ErrBadInput) || b.plain && (way == "again" || len(b.sent) <= 4096) {
				t.Fatalf("body %d of seed %d, %s: %v\n%q %.500q", i, seed, way, err, b.header, b.sent)
			}
			continue
		}
		granted++
		for _, first := range []bool{false, true} {
			model, units := read(t, b.text, first)
			if got["model:"+model] != 1 || got["tokens"] < units || b.plain && got["tokens"] != units {
				t.Fatalf("body %d of seed %d, %s: charged %v, but a server reads the model %s and %d units\n%q %.500q", i, seed, way, got, model, units, b.header, b.sent)
			}
		}
	}
	if granted < n/3 || refused < n/20 {
		t.Errorf("%d were granted and %d refused", granted, refused)
	}
}

// read returns the model and the units of a text, as a server reads them that takes the
// first or the last of members with one name.
func read(t *testing.T, text string, first bool) (model string, units int64) {
	t.Helper()
	model, units = "other", 100
	object := func(raw json.RawMessage) map[string]json.RawMessage {
		all := map[string]json.RawMessage{}
		d := json.NewDecoder(bytes.NewReader(raw))
		if open, err := d.Token(); err != nil || open != json.Delim('{') {
			return nil
		}
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err == nil {
				err = d.Decode(&value)
			}
			if err != nil {
				t.Fatalf("%v in %s", err, raw)
			}
			if _, has := all[name.(string)]; !has || !first {
				all[name.(string)] = value
			}
		}
		return all
	}
	all := object(json.RawMessage(text))
	var value any
	switch _ = json.Unmarshal(all["model"], &value); v := value.(type) {
	case string:
		model = v
	case bool, float64:
		model = string(all["model"])
	}
	value = nil
	if json.Unmarshal(object(all["opt"])["max"], &value) == nil {
		switch v := value.(type) {
		case float64:
			if v >= 0 {
				units = int64(v)
			}
		case string:
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				units = n
			}
		}
	}
	return model, units
}

// randomBody is a body, and what stands in it.
type randomBody struct {
	*rand.Rand
	text   string // JSON
	sent   []byte // the same, as it is sent
	header []string
	plain  bool // nobody can misread it
}

func (b *randomBody) one(of ...string) string { return of[b.IntN(len(of))] }

func (b *randomBody) make() {
	b.plain = true
	b.text = b.object(0)
	b.sent = []byte(b.text)
	if kind := b.one("", "application/json", "text/event-stream", "application/x-ndjson", "text/plain"); kind != "" {
		b.header = append(b.header, "Content-Type", kind)
	}
	b.plain = !b.twice()
	switch b.IntN(20) { // how servers are misled
	case 0:
		b.sent, b.plain = append(b.sent, b.one(" hello", "{}", "null", `{"model":"cheap","opt":{"max":1}}`)...), false
	case 1:
		b.sent, b.plain = []byte(utf16LE(b.text)), false
	case 2:
		b.sent, b.plain = append([]byte(`{"x":NaN,`), b.sent[1:]...), false
	case 3:
		b.sent = append([]byte("\xef\xbb\xbf"), b.sent...)
	case 4:
		b.header, b.plain = append(b.header, "Content-Encoding", b.one("br", "deflate", "gzip, gzip")), false
	case 5:
		b.sent, b.plain = append([]byte(gzipText(b.text)), b.one("", "", "rest")...), false
		b.header = append(b.header, "Content-Encoding", "gzip")
	}
}

// twice reports whether a name stands twice in an object of the text.
func (b *randomBody) twice() bool {
	var open []map[string]bool
	d := json.NewDecoder(strings.NewReader(b.text))
	name := true
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		text, is := token.(string)
		switch {
		case token == json.Delim('{'):
			open, name = append(open, map[string]bool{}), true
		case token == json.Delim('}'):
			open, name = open[:len(open)-1], true
		case is && name:
			if open[len(open)-1][text] {
				return true
			}
			open[len(open)-1][text], name = true, false
		default:
			name = true
		}
	}
}

// object makes an object. There are no lists, so that twice is simple.
func (b *randomBody) object(depth int) string {
	var out strings.Builder
	out.WriteString(b.space() + "{")
	for i := range b.IntN(5) {
		if i > 0 {
			out.WriteString(b.space() + ",")
		}
		name := b.one("model", "opt", "max", "text", "other", "models", "Model")
		out.WriteString(b.space() + b.quoted(name) + b.space() + ":" + b.space() + b.value(name, depth))
	}
	return out.String() + b.space() + "}"
}

func (b *randomBody) value(name string, depth int) string {
	switch kind := b.IntN(12); {
	case (name == "opt" && kind < 10 || kind < 2) && depth < 3:
		return b.object(depth + 1)
	case name == "max" && kind < 9:
		return b.one(strconv.Itoa(b.IntN(100000)), strconv.Quote(strconv.Itoa(b.IntN(100000))), strconv.Itoa(b.IntN(90)+1)+"e3", strconv.Itoa(b.IntN(1000))+"."+strings.Repeat("0", 1+b.IntN(600)))
	case kind < 4:
		return b.one("null", "true", "false", "-1", "0")
	case name == "text" && kind < 8:
		return `"` + strings.Repeat(b.one("x", `\"`, `{\"model\":\"cheap\"}`, `\\`), b.IntN(1500)) + `"`
	}
	return b.quoted(b.one("big", "small", "cheap", "a model with a longer name", "été"))
}

// quoted writes a text with some escapes.
func (b *randomBody) quoted(text string) string {
	var out strings.Builder
	often := b.IntN(4)
	for _, c := range text {
		if b.IntN(4) < often {
			fmt.Fprintf(&out, `\u%04x`, c)
		} else {
			out.WriteRune(c)
		}
	}
	return `"` + out.String() + `"`
}

func (b *randomBody) space() string {
	if b.IntN(60) == 0 {
		return strings.Repeat(" ", b.IntN(5000))
	}
	return b.one("", "", "", " ", "\n")
}

func utf16LE(text string) string {
	var out []byte
	for _, c := range utf16.Encode([]rune(text)) {
		out = append(out, byte(c), byte(c>>8))
	}
	return string(out)
}

func gzipText(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}
