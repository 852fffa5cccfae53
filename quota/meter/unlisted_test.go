package meter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// TestUnlistedHosts: a call to a host that no upstream lists is told, and with Strict it is
// not sent. The hosts of the price book may have a typo.
func TestUnlistedHosts(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/files/away" {
					http.Redirect(w, req, "http://files.example.net/x", http.StatusFound)
				}
			}, nil)
			book := newLedger(t, tenants, r.clock).Book()
			var told []quota.Event
			var err error
			r.ledger, err = quota.New(book, newStore(r.clock), &quota.Options{Clock: r.clock, Observer: quota.ObserverFunc(func(e quota.Event) {
				if e.Kind == quota.EventUnmetered {
					told = append(told, e)
				}
			})})
			if err != nil {
				t.Fatal(err)
			}
			r.meter(&meter.Options{Strict: strict})
			for range 8 {
				_, _, err := r.do(t.Context(), "GET", "https://hub.exmaple.com/search", "")
				var unlisted *meter.UnlistedError
				if strict != errors.As(err, &unlisted) || strict && (!errors.Is(err, quota.ErrUnpriced) || !strings.Contains(err.Error(), `"hub.exmaple.com"; did you mean hub.example.com?`)) || !strict && err != nil {
					t.Errorf("error %v", err)
				}
			}
			if len(told) != 8 || told[0].Host != "hub.exmaple.com" || strict != (told[0].Err != nil) {
				t.Errorf("told %+v", told)
			}
			if lines := strings.Count(r.log.String(), "hub.exmaple.com"); !strict && lines != 1 {
				t.Errorf("%d lines of the log name the host:\n%s", lines, r.log)
			}
			told = nil
			_, _, err = r.do(t.Context(), "GET", "http://www.example.com/other", "") // the book has another path of that host
			if strict == (err == nil) || len(told) != 1 || told[0].Host != "www.example.com" {
				t.Errorf("another path: %v, told %v", err, told)
			}
			told = nil
			for _, url := range []string{"http://hub.example.com/search", "http://hub.example.com/files/away", "http://seen.example.com/"} {
				if _, _, err := r.do(t.Context(), "GET", url, ""); err != nil {
					t.Error(err)
				}
			}
			if len(told) > 0 {
				t.Errorf("hosts that the book names are told: %v", told)
			}
			if resp := meter.As429(&http.Request{}, &meter.UnlistedError{Host: "x"}); resp == nil || resp.StatusCode != http.StatusBadRequest { //nolint:bodyclose // it is in memory
				t.Errorf("the answer is %v", resp)
			}
		})
	}
}

// TestUnlistedHostsAreBounded: a program that calls very many hosts does not fill the log.
func TestUnlistedHostsAreBounded(t *testing.T) {
	r := newRig(t, nil, nil)
	r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})})
	for i := range 1000 {
		if _, _, err := r.do(context.Background(), "GET", fmt.Sprintf("https://h%d.test/", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	lines := slices.Collect(strings.Lines(r.log.String()))
	if len(lines) != 64 || !strings.Contains(lines[63], "further hosts are not named") {
		t.Errorf("%d lines, the last one is %s", len(lines), lines[len(lines)-1])
	}
}
