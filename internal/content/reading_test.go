package content_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota/book"
)

func ptr(n int64) *int64 { return &n }

// read reads a body in pieces of a size.
func read(s *content.Sources, m content.Message, body string, size int) *content.Reading {
	m.Length = -1
	r := s.Read(m)
	for rest := []byte(body); len(rest) > 0; {
		n := min(size, len(rest))
		r.Write(bytes.Clone(rest[:n]))
		rest = rest[n:]
	}
	r.End(true)
	return r
}

func TestUnitsOfJSON(t *testing.T) {
	const usage = `{"id":"x","usage":{"in\u0070ut":12,"output":7,"deep":{"output":99},"text":"31","empty":null},
		"data":[{"n":1},{"n":5},[1,2,3],"x"],"none":[],"cost":1.25,"model":"large"}`
	for _, c := range []struct {
		source book.Source
		body   string
		want   int64 // -1: none
	}{
		{book.Source{Body: "usage.input"}, usage, 12},
		{book.Source{Body: "usage.output"}, usage, 7},
		{book.Source{Body: "output"}, usage, -1},
		{book.Source{Body: "usage"}, usage, -1},
		{book.Source{Body: "usage.text"}, usage, 31},
		{book.Source{Body: "usage.empty"}, usage, -1},
		{book.Source{Body: "usage.empty", Default: ptr(4)}, usage, 4},
		{book.Source{Body: "data.1.n"}, usage, 5},
		{book.Source{Body: "data.2.1"}, usage, 2},
		{book.Source{Body: "data.n"}, usage, -1},
		{book.Source{Count: "data"}, usage, 4},
		{book.Source{Count: "data.2"}, usage, 3},
		{book.Source{Count: "none"}, usage, 0},
		{book.Source{Count: "usage"}, usage, -1},
		{book.Source{Count: "cost"}, usage, -1},
		{book.Source{Body: "cost"}, usage, 2},
		{book.Source{Body: "cost", Times: 3}, usage, 6},
		{book.Source{Body: "usage.input", Per: 5}, usage, 3},
		{book.Source{Body: "usage.input", Per: 5, Times: 10, Max: 25}, usage, 25},
		{book.Source{Body: "usage.input", Per: 5, Min: 8}, usage, 8},
		{book.Source{Body: "model", Cases: map[string]int64{"large": 40}}, usage, 40},
		{book.Source{Body: "model", Cases: map[string]int64{"small": 4}}, usage, -1},
		{book.Source{Body: "model", Cases: map[string]int64{"small": 4}, Default: ptr(9)}, usage, 9},
		{book.Source{Body: "model"}, usage, -1},
		{book.Source{Body: "a.usage.input | usage.output"}, usage, 7},
		{book.Source{Body: "0"}, `[8]`, 8},
		{book.Source{Body: "a"}, `{"a":-5}`, -1},
		{book.Source{Body: "a"}, `{"a":-0.5}`, -1},
		{book.Source{Body: "a"}, `{"a":1e308}`, -1},
		{book.Source{Body: "a"}, `{"a":1e999}`, -1},
		{book.Source{Body: "a"}, `{"a":2e3}`, 2000},
		{book.Source{Body: "a"}, `{"a":9999999999999999}`, -1},
		{book.Source{Body: "a"}, `{"a":"NaN"}`, -1},
		{book.Source{Body: "a"}, `{"a":"0x10"}`, -1},
		{book.Source{Body: "a"}, `{"a":true}`, -1},
		{book.Source{Body: "a"}, `{"a":[1]}`, -1},
		{book.Source{Body: "a"}, `{"a":1,"a":2}`, 2},
		{book.Source{Body: "a"}, `{"a":1,"a":{}}`, -1},
		{book.Source{Body: "a"}, `{"a":1`, -1},
		{book.Source{Body: "a"}, `{"a":1]`, -1},
		{book.Source{Body: "a"}, `{"a":1,}`, -1},
		{book.Source{Body: "a"}, `{"a":1} hello`, -1},
		{book.Source{Body: "a", Default: ptr(3)}, `{"b":1}`, 3},
		{book.Source{Body: "a"}, "{\"a\":1}\n{\"a\":2}\n{}\n", 2},
		{book.Source{Body: "a"}, strings.Repeat("[", 10<<20), -1},
		{book.Source{Body: "a"}, `{"b":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `,"a":6}`, 6},
		{book.Source{Body: "a"}, `{"b":"\"a\":9\\","a":6}`, 6},
		{book.Source{Body: "a", JSON: "b.0"}, `{"a":"{\"b\":[7]}"}`, 7},
		{book.Source{Body: "a", Match: regexp.MustCompile(`=(\d+)/`)}, `{"a":"used=18/500"}`, 18},
		{book.Source{Body: "a", Split: ",", Cases: map[string]int64{"x": 2, "y": 3}}, `{"a":"x, y"}`, 5},
		{book.Source{Body: "a", Split: ",", Cases: map[string]int64{"x": 2}}, `{"a":"x, y"}`, -1},
		{book.Source{Bytes: true}, "12345", 5},
		{book.Source{Bytes: true, Per: 4}, "12345", 2},
		{book.Source{Bytes: true, Per: 4}, "", 0},
		{book.Source{Number: 7, Times: 2}, "", 14},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			if len(c.body) > 1<<20 && size < 1<<20 {
				continue
			}
			n, ok := read(content.NewSources(&c.source), content.Message{}, c.body, size).Units(0)
			if !ok {
				n = -1
			}
			if n != c.want {
				t.Errorf("%+v of %.80s in pieces of %d: %d, want %d", c.source, c.body, size, n, c.want)
			}
		}
	}
}

func TestTextsBesideTheBody(t *testing.T) {
	m := content.Message{
		Header: http.Header{"X-App-Usage": {`{"call_count": 28, "total": [1]}`}, "Sforce-Limit-Info": {"api-usage=18/5000"}, "X-Cost": {" 3.5 "}},
		Query:  "q=a%20b&maxResults=50&part=snippet,statistics&bad=%zz",
		Path:   func(name string) (string, bool) { return "p1", name == "id" },
	}
	for _, c := range []struct {
		source book.Source
		text   string
		want   int64
	}{
		{book.Source{Header: "x-cost"}, "3.5", 4},
		{book.Source{Header: "x-app-usage", JSON: "call_count"}, "28", 28},
		{book.Source{Header: "x-app-usage", JSON: "call_count.x"}, "", -1},
		{book.Source{Header: "sforce-limit-info", Match: regexp.MustCompile(`api-usage=(\d+)/(\d+)`)}, "18", 18},
		{book.Source{Header: "sforce-limit-info", Match: regexp.MustCompile(`\d+`)}, "18", 18},
		{book.Source{Header: "none"}, "", -1},
		{book.Source{Query: "maxResults", Per: 20}, "50", 3},
		{book.Source{Query: "q"}, "a b", -1},
		{book.Source{Query: "bad"}, "", -1},
		{book.Source{Query: "part", Split: ",", Cases: map[string]int64{"snippet": 2, "statistics": 3}}, "snippet,statistics", 5},
		{book.Source{Path: "id"}, "p1", -1},
		{book.Source{Path: "other"}, "", -1},
	} {
		s := content.NewSources(&c.source)
		if s.NeedsBody(-1) {
			t.Errorf("%+v needs a body", c.source)
		}
		r := s.Read(m)
		text, _ := r.Text(0)
		n, ok := r.Units(0)
		if !ok {
			n = -1
		}
		if text != c.text || n != c.want {
			t.Errorf("%+v: %q, %d; want %q, %d", c.source, text, n, c.text, c.want)
		}
	}
}

func TestStreams(t *testing.T) {
	sse := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
	lines := http.Header{"Content-Type": {"application/x-ndjson"}}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		eof    bool
		want   int64
	}{
		"the last event counts":      {sse, "data: {\"n\":1}\n\nevent: x\ndata: {\"n\":2}\n\ndata: {\"m\":3}\n\n", true, 2},
		"carriage returns":           {sse, "data: {\"n\":1}\r\n\r\ndata: {\"n\":2}\r\n\r\n", true, 2},
		"carriage returns alone":     {sse, "data: {\"n\":1}\r\rdata: {\"n\":2}\r\r", true, 2},
		"several lines":              {sse, ":hi\nid: 7\ndata: {\ndata:\"n\"\ndata: :2}\n\n", true, 2},
		"no blank line at the end":   {sse, "data: {\"n\":2}\n", true, 2},
		"an event that is not JSON":  {sse, "data: {\"n\":2}\n\ndata: hello\n\ndata: [DONE]\n\n", true, 2},
		"cut":                        {sse, "data: {\"n\":2}\n\ndata: {\"n\":3", false, -1},
		"closed by the last event":   {sse, "data: {\"n\":2}\n\ndata: [DONE]\n\n", false, 2},
		"closed in the last event":   {sse, "data: {\"n\":2}\n\ndata: [DON\n\n", false, -1},
		"other fields":               {sse, "dat: {\"n\":1}\ndatax: {\"n\":1}\ndata {\"n\":1}\nevent: data: {\"n\":1}\n\n", true, -1},
		"an event cut by the end":    {sse, "data: {\"n\":2}\n\ndata: {\"n\":3", true, 2},
		"lines":                      {lines, "{\"n\":1}\n{\"n\":2}\n", true, 2},
		"lines that are cut":         {lines, "{\"n\":1}\n{\"n\":2}\n", false, -1},
		"a line that does not parse": {lines, "{\"n\":1}\nhello\n{\"n\":2}\n", true, -1},
		"JSON that is not read on":   {nil, "{\"n\":1}", false, 1},
		"JSON that is cut":           {nil, "{\"n\":1", false, -1},
		"a byte order mark":          {sse, "\xef\xbb\xbfdata: {\"n\":1}\n\n", true, 1},
		"a mark before JSON":         {nil, "\xef\xbb\xbf{\"n\":1}", true, 1},
		"a sequence of texts":        {http.Header{"Content-Type": {"application/json-seq"}}, "\x1e{\"n\":1}\n\x1e{\"n\":2}\n", true, 2},
		"a separator within JSON":    {nil, "{\x1e\"n\":1}", true, -1},
		"brotli":                     {http.Header{"Content-Encoding": {"br"}}, "{\"n\":1}", true, -1},
		"nothing":                    {nil, "", true, -1},
		"HTML":                       {nil, "<html>", true, -1},
		"plain text":                 {nil, "not found", true, -1},
	} {
		for size := 1; size < 20; size += 3 {
			r := content.NewSources(&book.Source{Body: "n"}).Read(content.Message{Header: c.header, Length: -1})
			for rest := c.body; rest != ""; {
				n := min(size, len(rest))
				io.WriteString(r, rest[:n])
				rest = rest[n:]
			}
			r.End(c.eof)
			n, ok := r.Units(0)
			if !ok {
				n = -1
			}
			if n != c.want {
				t.Errorf("%s, in pieces of %d: %d, want %d", name, size, n, c.want)
			}
		}
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.String()
}

func TestGzip(t *testing.T) {
	s := content.NewSources(&book.Source{Body: "n"}, &book.Source{Bytes: true})
	m := content.Message{Header: http.Header{"Content-Encoding": {"gzip"}}}
	text := `{"n":7,"pad":"` + strings.Repeat("abcdefgh", 20000) + `"}`
	for _, size := range []int{1, 100, 1 << 20} {
		r := read(s, m, gzipped(text), size)
		n, ok := r.Units(0)
		length, known := r.Units(1)
		if n != 7 || !ok || length != int64(len(text)) || !known {
			t.Errorf("in pieces of %d: %d, %v, %d bytes", size, n, ok, length)
		}
	}
	whole := gzipped(text)
	for _, bad := range []string{whole[:len(whole)/2], "not gzip at all", "", whole[:len(whole)-8] + "12345678"} {
		r := read(s, m, bad, 100)
		if length, ok := r.Units(1); ok {
			t.Errorf("%.10q: %d bytes", bad, length)
		}
	}
}

// FuzzSources reads whatever there is, in whatever pieces.
func FuzzSources(f *testing.F) {
	for _, body := range []string{
		`{"usage":{"total":12},"data":[1,{"n":"5"}]}`, "data: {\"usage\":{\"total\":3}}\n\ndata: [DONE]\n\n",
		"{\"usage\":{\"total\":1e308}}\n{\"usage\":{\"total\":-5}}", `{"us\u0061ge":{"total":"1\ud800"}}`, gzipped(`{"usage":{"total":1}}`), "[[[[[[", `{"a":"\`,
	} {
		for kind := range byte(6) {
			f.Add([]byte(body), kind, byte(3))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, kind, size byte) {
		header := http.Header{"Content-Type": {[]string{"application/json", "text/event-stream", "application/x-ndjson"}[kind%3]}}
		if kind%6 > 2 {
			header.Set("Content-Encoding", "gzip")
		}
		header.Set("X-Text", fmt.Sprintf("%q", body))
		s := content.NewSources(
			&book.Source{Body: "usage.total|message.usage.total", Per: 3, Times: 7}, &book.Source{Count: "data"}, &book.Source{Body: "data.1.n"},
			&book.Source{Header: "x-text", JSON: "a.b"}, &book.Source{Body: "usage.total", Match: regexp.MustCompile(`(\d+)x?`)}, &book.Source{Bytes: true})
		texts := func(size int) string {
			r := read(s, content.Message{Header: header}, string(body), size)
			var all []string
			for i := range 6 {
				n, ok := r.Units(i)
				if n < 0 || n > 1<<53 {
					t.Errorf("source %d is %d", i, n)
				}
				text, found := r.Text(i)
				all = append(all, fmt.Sprint(n, ok, found, text))
			}
			return strings.Join(all, "|")
		}
		if whole, pieces := texts(len(body)+1), texts(int(size)+1); whole != pieces {
			t.Errorf("%q at once, %q in pieces of %d", whole, pieces, size+1)
		}
	})
}

// A form has values like JSON. A value that stands twice is doubted, and so is one that is cut off.
func TestForms(t *testing.T) {
	u := &book.Upstream{Pools: map[string]*book.Pool{"messages": {Name: "messages", By: []book.Source{{Body: "channel", DefaultText: "other"}}}}}
	plan := content.NewPlan(u, &book.Method{Charges: map[string]int64{"messages": 1}}, true)
	for _, c := range []struct{ kind, body, key, doubt string }{
		{"application/x-www-form-urlencoded", "channel=C1&text=a%20b", "C1", ""},
		{"Application/X-WWW-Form-Urlencoded; charset=utf-8", "text=&channel=C%2F1", "C/1", ""},
		{"application/x-www-form-urlencoded", "text=channel", "other", ""},
		{"application/x-www-form-urlencoded", "channel=C1&channel=C2", "C1", "channel stands in it twice"},
		{"application/x-www-form-urlencoded", "channel=%zz", "other", ""},
		{"application/x-www-form-urlencoded", "channel=C1&text=" + strings.Repeat("x", 1<<20), "other", "a value in it is too long"},
		{"text/plain", "channel=C1", "other", ""},
		{"application/json", `{"channel":"C1"}`, "C1", ""},
		{"application/x-www-form-urlencoded", `{"channel":"C1"}`, "C1", ""}, // some servers read JSON, whatever its type
	} {
		r := read(plan.Request, content.Message{Header: http.Header{"Content-Type": {c.kind}}}, c.body, 7)
		why, _ := r.Doubt(c.kind == "application/json")
		if key := plan.Keys(r)["messages"]; key != c.key || why != c.doubt {
			t.Errorf("%s %.40s: key %q, doubt %q; want %q and %q", c.kind, c.body, key, why, c.key, c.doubt)
		}
	}
}
