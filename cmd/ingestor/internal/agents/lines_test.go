package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// A line that is no message is answered with an error, and the session goes on.
func TestLinesThatAreNoMessages(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte("{revision: 1, upstreams: {api: {pools: {units: {quota: 10, windows: [{per: 1h}]}}, methods: {get: 1}}}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range []string{
		"[]", "null", "[null]", "[[]]", "7", `"text"`, "true", "{}", "{", "[", "[{}]", "\x00", "\xff", `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":true,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"method":""}`, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`,
		`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":99,"error":null}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":7}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, //nolint:misspell // the protocol spells it so
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}`, `{"jsonrpc":"2.0","method":"no/such"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, strings.Repeat("[", 100_000),
	} {
		for _, version := range []string{"2025-06-18", "2025-03-26"} {
			t.Run(fmt.Sprintf("%d %s %.60q", i, version, line), func(t *testing.T) {
				l, err := quota.New(costs, memstore.New(nil), nil)
				if err != nil {
					t.Fatal(err)
				}
				in, to := io.Pipe()
				from, out := io.Pipe()
				served := make(chan error, 1)
				go func() {
					err := Serve(t.Context(), l, in, out, &Options{Log: slog.New(slog.DiscardHandler)})
					_, _ = in.Close(), out.CloseWithError(io.EOF)
					served <- err
				}()
				go func() {
					_, _ = fmt.Fprintf(to, `{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n%s\n"+ //nolint:misspell // the protocol spells it so
						`{"jsonrpc":"2.0","id":"end","method":"ping"}`+"\n", version, line)
				}()
				answers := json.NewDecoder(from)
				for {
					var answer struct{ ID any }
					if err := answers.Decode(&answer); err != nil {
						t.Fatalf("the session ended: %v, %v", err, <-served)
					}
					if answer.ID == "end" {
						break
					}
				}
				_ = to.Close()
				if err := <-served; err != nil {
					t.Errorf("at the end: %v", err)
				}
			})
		}
	}
}
