package meter_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// builtin returns a rig with a built-in book.
func builtin(t *testing.T, name string, handler http.HandlerFunc) *rig {
	t.Helper()
	text, _ := headroom.ReadBuiltin(name)
	b, err := book.Parse(name, text, &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, handler, nil)
	if err := r.ledger.SetBook(b); err != nil {
		t.Fatal(err)
	}
	return r
}

// An account of a lower tier than the book's spends what it spends, and others nothing.
func TestALowerTierOfAnthropic(t *testing.T) {
	r := builtin(t, "builtin/anthropic", func(w http.ResponseWriter, req *http.Request) {
		for _, pool := range []string{"Requests", "Input-Tokens", "Output-Tokens"} {
			w.Header().Set("Anthropic-Ratelimit-"+pool+"-Limit", "30000")
			w.Header().Set("Anthropic-Ratelimit-"+pool+"-Remaining", "30000")
			w.Header().Set("Anthropic-Ratelimit-"+pool+"-Reset", noon.Format(time.RFC3339))
		}
		io.WriteString(w, `{"usage": {"input_tokens": 10, "output_tokens": 20}}`)
	})
	for range 18 {
		body := strings.NewReader(`{"model": "claude-sonnet", "max_tokens": 100}`)
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.anthropic.com/v1/messages", body)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		r.flush()
		r.clock.Advance(time.Minute)
	}
	spent, err := r.ledger.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByMethod, quota.ByPool)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range spent {
		if s.Labels.Method == quota.Others {
			t.Errorf("others spent %d of %s", s.Units, s.Pool)
		}
	}
	for _, pool := range []string{"input_tokens", "output_tokens"} {
		u := r.usage("anthropic/" + pool + ":sonnet")
		if w := u.Allowances[0]; w.Limit != 30000 || w.Reported != 30000 || w.Used > 100 {
			t.Errorf("%s: %+v", pool, w)
		}
	}
}

// Reddit's window ends at 0 seconds, and the next call begins another one.
func TestTheResetOfReddit(t *testing.T) {
	for _, reset := range []string{"0", "0.0", "0.3"} {
		r := builtin(t, "builtin/reddit", func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("X-Ratelimit-Remaining", "0.0")
			w.Header().Set("X-Ratelimit-Used", "1000")
			w.Header().Set("X-Ratelimit-Reset", reset)
			fmt.Fprint(w, "{}")
		})
		for range 3 {
			if _, _, err := r.do(t.Context(), "GET", "https://oauth.reddit.com/api/v1/me", ""); err != nil {
				t.Errorf("reset %s: %v", reset, err)
			}
			r.flush()
			r.clock.Advance(3 * time.Second)
		}
	}
}
