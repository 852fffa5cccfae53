package meter_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// BenchmarkContentPrice is a call whose request and answer have 2 KB of JSON, without the
// network.
func BenchmarkContentPrice(b *testing.B) {
	l := newLedger(b, strings.ReplaceAll(modelPrices, "quota: 100,", "quota: 1000000000,"), quota.NewSimClock(noon))
	text := strings.Repeat(`{"role":"user","content":"hello there"},`, 50)
	request := `{"messages":[` + text + `{}],"max_tokens":100}`
	reply := `{"choices":[` + text + `{}],"usage":{"input":0,"output":0}}`
	m := newTransport(b, l, &meter.Options{Logger: discard, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ContentLength: int64(len(reply)), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(onlyReader{strings.NewReader(reply)})}, nil
	})})
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest("POST", messages, strings.NewReader(request))
		resp, err := m.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	m.Flush(b.Context())
}

// BenchmarkStream is 1 MB of an answer, as an LLM sends it.
func BenchmarkStream(b *testing.B) {
	var events, lines strings.Builder
	for n := 0; events.Len() < 1<<20; n++ {
		data := fmt.Sprintf(`{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"content":"word %d"},"finish_reason":null}],"usage":null}`, n)
		fmt.Fprintf(&events, "data: %s\n\n", data)
		lines.WriteString(data + "\n")
	}
	sources := content.NewSources(&book.Source{Body: "usage.prompt_tokens"}, &book.Source{Body: "usage.completion_tokens"})
	for name, c := range map[string]struct{ kind, text string }{
		"events": {"text/event-stream", events.String()},
		"lines":  {"application/x-ndjson", lines.String()},
		"text":   {"application/json", `{"data":"` + strings.Repeat("abcdefghijklmnop", 1<<16) + `","usage":{"prompt_tokens":1}}`},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			chunk := make([]byte, 4096)
			for b.Loop() {
				r := sources.Read(content.Message{Header: http.Header{"Content-Type": {c.kind}}, Length: -1})
				io.CopyBuffer(struct{ io.Writer }{r}, iotest.DataErrReader(strings.NewReader(c.text)), chunk)
				r.End(true)
			}
		})
	}
}

// onlyReader is a body as net/http has them.
type onlyReader struct{ io.Reader }
