package draft

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
)

// drafted drafts from calls of one route, so far apart, whose answers have these headers.
func drafted(t *testing.T, calls int, apart time.Duration, header func(i int) map[string]string) string {
	t.Helper()
	var lines []byte
	for i := range calls {
		x := &record.Exchange{
			At: time.Date(2026, 11, 28, 10, 0, 7, 0, time.UTC).Add(time.Duration(i) * apart), Host: "api.example.com", Verb: "GET", Path: "/v1/items", Status: 200, Kind: "json", Header: header(i),
		}
		line, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	d := New()
	if err := d.Log("calls.jsonl", lines); err != nil {
		t.Fatal(err)
	}
	text, _ := d.Book()
	return text
}

// A call costs at least one unit, even if as much is left after each: it was in a window of its own.
func TestOneCallInEachWindowCostsOne(t *testing.T) {
	for name, c := range map[string]struct {
		apart  time.Duration
		header func(i int) map[string]string
	}{
		"4 of 5 each second": {1100 * time.Millisecond, func(int) map[string]string {
			return map[string]string{"X-Ratelimit-Limit-Second": "5", "X-Ratelimit-Remaining-Second": "4"}
		}},
		"of a second and of an hour": {1100 * time.Millisecond, func(i int) map[string]string {
			return map[string]string{
				"X-Ratelimit-Limit-Second": "5", "X-Ratelimit-Remaining-Second": "4",
				"X-Ratelimit-Limit-Hour": "1000", "X-Ratelimit-Remaining-Hour": fmt.Sprint(999 - i),
			}
		}},
		"59 of 60 each minute": {time.Minute, func(int) map[string]string {
			return map[string]string{"X-Ratelimit-Limit": "60", "X-Ratelimit-Remaining": "59"}
		}},
		"faster than the window, and free": {100 * time.Millisecond, func(int) map[string]string {
			return map[string]string{"X-Ratelimit-Limit-Hour": "60", "X-Ratelimit-Remaining-Hour": "30", "X-Ratelimit-Reset-Hour": "3000"}
		}},
	} {
		if text := drafted(t, 50, c.apart, c.header); !strings.Contains(text, "charge: {requests: 1}}  # calls.jsonl; 50 calls\n") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// In the second and the hour alike, a call that takes five units is found to.
func TestTheHourTellsThePriceIfTheSecondDoesNot(t *testing.T) {
	text := drafted(t, 50, 1100*time.Millisecond, func(i int) map[string]string {
		return map[string]string{
			"X-Ratelimit-Limit-Second": "50", "X-Ratelimit-Remaining-Second": "45",
			"X-Ratelimit-Limit-Hour": "1000", "X-Ratelimit-Remaining-Hour": fmt.Sprint(995 - 5*i),
		}
	})
	if !strings.Contains(text, "charge: {requests: 5}") {
		t.Errorf("drafted:\n%s", text)
	}
}

// Where the evidence leaves a doubt, the draft must not allow more than the upstream does.
func TestADraftHasTheLongestWindowThatFits(t *testing.T) {
	left := func(quota, each int) func(i int) map[string]string {
		return func(i int) map[string]string {
			return map[string]string{"X-Quota-Limit": fmt.Sprint(quota), "X-Quota-Remaining": fmt.Sprint(quota - 1 - i%each)}
		}
	}
	for name, c := range map[string]struct {
		calls  int
		apart  time.Duration
		header func(i int) map[string]string
		want   string
	}{
		"no window has ended":                      {50, time.Second, left(10000, 50), "- {per: 1h, quota: 10000}"},
		"no window has ended in a day":             {50, 20 * time.Minute, left(10000, 50), "- {per: 24h, quota: 10000}"},
		"one has, which began with the first call": {50, 10 * time.Second, left(10000, 30), "- {per: 5m, quota: 10000}"},
		"one has, which began before": {50, 10 * time.Second, func(i int) map[string]string {
			return left(10000, 1000)((i+30)%60 + 15*max(0, 1-i/30))
		}, "- {per: 1h, quota: 10000}"},
		"two have":                 {50, 3 * time.Second, left(100, 20), "- {per: 1m, quota: 100, precision: 600ms}"},
		"two have, with few calls": {20, 8 * time.Second, left(100, 7), "- {per: 1m, quota: 100, precision: 600ms}"},
		"calls at once": {48, 200 * time.Millisecond, func(i int) map[string]string {
			return left(10000, 48)(i ^ 1)
		}, "- {per: 1h, quota: 10000}"},
		"more calls at once": {48, 200 * time.Millisecond, func(i int) map[string]string {
			return left(10000, 48)(i/4*4 + []int{2, 0, 3, 1}[i%4])
		}, "- {per: 1h, quota: 10000}"},
	} {
		if text := drafted(t, c.calls, c.apart, c.header); !strings.Contains(text, c.want) {
			t.Errorf("%s: want %s\n%s", name, c.want, text)
		}
	}
}

// Credits that are the same each time are no units of a bucket.
func TestANumberThatIsTheSameEachTimeMakesNoBucket(t *testing.T) {
	text := drafted(t, 50, time.Second, func(i int) map[string]string {
		return map[string]string{"X-Ratelimit-Limit-Hour": "1000", "X-Ratelimit-Remaining-Hour": fmt.Sprint(999 - i), "X-Credits-Used": "2"}
	})
	if !strings.Contains(text, "- {per: 1h, quota: 1000}") || !strings.Contains(text, "charge: {requests: 1}") {
		t.Errorf("drafted:\n%s", text)
	}
}

func TestOneCallIsEvidence(t *testing.T) {
	text := drafted(t, 2, time.Second, func(i int) map[string]string {
		return map[string]string{"X-Ratelimit-Limit-Hour": "1000", "X-Ratelimit-Remaining-Hour": fmt.Sprint(995 - 5*i)}
	})
	if !strings.Contains(text, "charge: {requests: 5}}  # calls.jsonl; 2 calls; one call took 5; look it up\n") {
		t.Errorf("drafted:\n%s", text)
	}
}

// What a call takes of tokens is learnt from their usage, so no headroom is for those that take more.
func TestUsageNeedsNoHeadroom(t *testing.T) {
	left := 100000
	d, lines := New(), []byte(nil)
	for i := range 40 {
		left -= 100 + i*i%37*10
		line, err := json.Marshal(&record.Exchange{
			At: time.Date(2026, 11, 28, 10, 0, i, 0, time.UTC), Host: "api.example.com", Verb: "POST", Path: "/v1/chat", Status: 200, Kind: "json",
			Header: map[string]string{"X-Ratelimit-Limit-Tokens-Hour": "100000", "X-Ratelimit-Remaining-Tokens-Hour": fmt.Sprint(left)},
			Body:   map[string]string{"usage.total_tokens": fmt.Sprint(90 + i*i%37*10)},
		})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if err := d.Log("calls.jsonl", lines); err != nil {
		t.Fatal(err)
	}
	text, _ := d.Book()
	if !strings.Contains(text, "usage.total_tokens") || strings.Contains(text, "headroom") {
		t.Errorf("drafted:\n%s", text)
	}
}
