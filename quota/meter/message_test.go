package meter_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/quota/meter"
)

// spentBy refuses with a status that the book needs no text to read.
func spentBy(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, body)
	}
}

// The reason of a block is what the upstream says, as one line of plain text.
func TestReasonsOfBlocks(t *testing.T) {
	const status = "429 Too Many Requests"
	for _, c := range []struct{ name, kind, body, want string }{
		{"Google's", "application/json; charset=UTF-8", `{"error": {"code": 429, "message": "Quota exceeded.", "errors": [{"message": "deeper", "reason": "x"}]}}`, "Quota exceeded."},
		{"Google's in a list", "application/json", `[{"error": {"message": "Quota exceeded."}}]`, "Quota exceeded."},
		{"of RFC 9457", "application/problem+json", `{"type": "about:blank", "title": "Too fast", "status": 429, "detail": "Slow down."}`, "Too fast: Slow down."},
		{"of RFC 9457, no more than a title", "application/problem+json", `{"title": "Too fast"}`, "Too fast"},
		{"of RFC 9457, no title", "application/problem+json", `{"detail": "Slow down."}`, "Slow down."},
		{"a message", "application/json", `{"documentation_url": "https://example.com", "message": "Slow down."}`, "Slow down."},
		{"an error", "application/json", `{"error": "slow_down"}`, "slow_down"},
		{"the error's before the others", "application/json", `{"message": "other", "title": "other", "error": {"message": "Slow down."}}`, "Slow down."},
		{"not one that belongs to something else", "application/json", `{"hint": {"message": "other"}, "error": {"details": [{"message": "other"}]}}`, status},
		{"not one that is no text", "application/json", `{"message": 17, "error": null}`, status},
		{"not one that is cut short", "application/json", `{"message": "Slow do`, status},
		{"an empty one", "application/json", `{"message": " \n "}`, status},
		{"a page", "text/html", `<html><title>Slow down</title>`, status},
		{"no answer to speak of", "", "", status},
		{"HTML in it", "application/json", `{"message": "your <a href=\"/help\">quo<b>ta</b></a> is<br/>gone &amp; &lt;spent&gt;<!-- x -->"}`, "your quota is gone & <spent>"},
		{"control characters in it", "application/json", `{"message": "a\u0000b\r\n\tc\u001b[31m\u202e\u200bd\u2028e"}`, "a b c [31md e"},
		{"a long one", "application/json", `{"message": "` + strings.Repeat("Größe ", 60) + `"}`, strings.TrimSpace(strings.Repeat("Größe ", 31) + "Grö" + "…")},
		{"without a key that is another's", "application/json", `{"message": "Consumer 'api_key:AIza-other' has been suspended; see ?key=another&x=1"}`, "Consumer 'api_key:[key]' has been suspended; see ?key=[key]&x=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, spentBy(c.kind, c.body), nil)
			if _, text, err := r.do(t.Context(), "GET", items, ""); err != nil || text != c.body {
				t.Errorf("the caller got %q, %v", text, err)
			}
			got := r.usage("api/units").Reason
			if got != c.want {
				t.Errorf("the reason is\n%q, want\n%q", got, c.want)
			}
			if len(got) > 256 || !utf8.ValidString(got) {
				t.Errorf("%q has %d bytes", got, len(got))
			}
		})
	}
}

// An upstream may repeat the key in its answer. Reasons of blocks and logs do not.
func TestReasonsOfBlocksHoldNoKey(t *testing.T) {
	const key, token = "s3cr3t/k+y", "t0k3n-of-somebody"
	for name, message := range map[string]string{
		"as it is":                    "the quota of " + key + " is gone",
		"as in a URL":                 "see ?k=s3cr3t%2Fk%2By",
		"among tags":                  "the quota of s3cr3t<b>/k+y</b> is gone",
		"where it is cut":             strings.Repeat("x", 250) + key,
		"with what nobody sees in it": "the quota of s3c\\u200br3t/k+y is gone",
		"and not another's":           "Bearer " + token + " and " + token,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, spentBy("application/json", fmt.Sprintf(`{"message": "%s"}`, message)), &meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key(key)}})
			req, _ := http.NewRequest("GET", items, nil)
			req.Header.Set("Authorization", "Bearer "+token)
			if _, _, err := r.send(req); err != nil {
				t.Fatal(err)
			}
			got := r.usage("api/units").Reason
			if !strings.Contains(got, "[key") && name != "where it is cut" || strings.Contains(got+r.log.String(), "r3t") || strings.Contains(got+r.log.String(), token) {
				t.Errorf("the reason is %q, the log\n%s", got, r.log)
			}
		})
	}
	t.Run("that the caller has put in itself", func(t *testing.T) {
		r := newRig(t, spentBy("application/json", `{"message": "no more for `+key+`"}`), nil)
		req, _ := http.NewRequest("GET", items, nil)
		req.Header.Set("X-Api-Key", key)
		if _, _, err := r.send(req); err != nil {
			t.Fatal(err)
		}
		if got := r.usage("api/units").Reason; got != "no more for [key]" {
			t.Errorf("the reason is %q", got)
		}
	})
}

// endless is a body that never ends, and counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	return len(b), nil
}

func (e *endless) Close() error { return nil }

// A refusal is not held back to find out what it says.
func TestReasonsOfBlocksAreNotWaitedFor(t *testing.T) {
	refuse := func(t *testing.T, kind string, body io.ReadCloser) {
		r := newRig(t, nil, nil)
		r.ledger = newLedger(t, strings.Replace(prices, "- {status: [403, 429], body: too fast, for: 30s}", "", 1), r.clock) // which reads bodies
		r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {kind}}, Body: body}, nil
		})})
		req, _ := http.NewRequest("GET", items, nil)
		if err := r.bare(req); err != nil {
			t.Fatal(err)
		}
		if got := r.usage("api/units").Reason; got != "429 Too Many Requests" {
			t.Errorf("the reason is %q", got)
		}
	}
	for _, kind := range []string{"text/event-stream", "application/x-ndjson", ""} {
		t.Run("of a stream, "+kind, func(t *testing.T) { refuse(t, kind, &unread{t: t}) })
	}
	t.Run("of JSON without an end", func(t *testing.T) {
		body := &endless{}
		refuse(t, "application/json", body)
		if body.read > 64<<10 {
			t.Errorf("%d bytes were read", body.read)
		}
	})
}
