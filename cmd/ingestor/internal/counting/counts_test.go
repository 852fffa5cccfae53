package counting

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/googlecount"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// TestWatchIsInTime: whatever the upstream reports is recorded within ten minutes, because
// the count is read at once and then every few minutes.
func TestWatchIsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read []time.Time
		w := &watcher{every: settings.DefaultSettings("/").WatchEvery, log: slog.New(slog.DiscardHandler), clock: time.Now, tells: &view.Counting{}, round: func(context.Context) ([]*Counted, error) {
			read = append(read, time.Now())
			return nil, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		began, ended := time.Now(), make(chan struct{})
		go func() { defer close(ended); w.run(ctx) }()
		time.Sleep(24 * time.Hour)
		stop()
		<-ended
		const seconds = 60 // for a page that is open to be shown again
		last := began
		for i, at := range append(read, began.Add(24*time.Hour)) {
			if at.Sub(last) > 10*time.Minute-seconds*time.Second || i == 0 && !at.Equal(began) {
				t.Fatalf("reading %d is %s after the one before", i, at.Sub(last))
			}
			last = at
		}
	})
}

// TestWatchSaysWhatIsNew: an error, its end, and a limit are logged once each.
func TestWatchSaysWhatIsNew(t *testing.T) {
	var log bytes.Buffer
	units := quota.Pool{Upstream: settings.Metered, Account: quota.DefaultAccount, Name: "units"}
	limited := func(limit int64) []*Counted {
		return []*Counted{{Pool: units, Quota: 10_000, Count: googlecount.Count{Limit: limit, Limited: true}}}
	}
	var all []*Counted
	var err error
	var tells view.Counting
	w := &watcher{every: time.Minute, log: slog.New(slog.NewTextHandler(&log, nil)), clock: time.Now, tells: &tells, round: func(context.Context) ([]*Counted, error) { return all, err }}
	for i, step := range []struct {
		all  []*Counted
		err  error
		want string
	}{
		{limited(10_000), nil, ""},
		{nil, errors.New("no role"), "level=WARN msg=\"Google's own count cannot be read\" error=\"no role\" again_in=1m"},
		{nil, errors.New("no role"), ""},
		{nil, errors.New("down"), "error=down"},
		{limited(50_000), nil, "can be read again"},
		{limited(50_000), nil, ""},
		{limited(5_000), nil, "pool=youtube/units limit=5000 quota=10000"},
	} {
		log.Reset()
		all, err = step.all, step.err
		w.once(t.Context())
		if got := tells.State(); got.Err != step.err || got.Failed.IsZero() != (step.err == nil) || got.Read.IsZero() && step.err == nil { //nolint:errorlint // it is the same
			t.Errorf("step %d: it tells %+v", i, got)
		}
		if !strings.Contains(log.String(), step.want) || step.want == "" && log.Len() > 0 {
			t.Errorf("step %d: %s, want %s", i, &log, step.want)
		}
	}
}
