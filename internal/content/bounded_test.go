package content_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota/book"
)

// However long a body is, all that is ever allocated for it is 64 KiB.
func TestAReadingIsSmall(t *testing.T) {
	events := strings.Repeat("data: {\"text\":\"hello\",\"n\":12,\"usage\":null}\n\n", 16)
	for name, c := range map[string]struct{ kind, head, piece, tail string }{
		"events":   {"text/event-stream", "", events, "data: {\"usage\":{\"n\":7}}\n\n"},
		"lines":    {"application/x-ndjson", "", strings.Repeat("{\"usage\":{\"n\":5}}\n", 16), "{\"usage\":{\"n\":7}}\n"},
		"a text":   {"", `{"text":"`, strings.Repeat("x\\n", 100), `","usage":{"n":7}}`},
		"a value":  {"", `{"usage":{"m":"`, strings.Repeat("x", 100), `","n":7}}`},
		"an array": {"", `{"all":[0`, strings.Repeat(",{\"n\":[]}", 16), `],"usage":{"n":7}}`},
		"brackets": {"", "", strings.Repeat("[", 1000), ""},
	} {
		s := content.NewSources(&book.Source{Body: "usage.n"}, &book.Source{Body: "usage.m"}, &book.Source{Count: "all"})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := s.Read(content.Message{Header: http.Header{"Content-Type": {c.kind}}, Length: -1})
		piece := []byte(c.piece)
		io.WriteString(r, c.head)
		for n := 0; n < 8<<20; n += len(piece) {
			r.Write(piece)
		}
		io.WriteString(r, c.tail)
		r.End(true)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
		if n, ok := r.Units(0); c.tail != "" && (n != 7 || !ok) {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}
