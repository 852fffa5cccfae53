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
