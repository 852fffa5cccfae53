package jobs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// TestLinesOfProgress: where there is no terminal a line comes at each tick if
// anything has changed, however many pages that were.
func TestLinesOfProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tick := make(chan time.Time)
		l := newLog(slog.New(slog.NewTextHandler(&out, nil)), tick, func() {})
		for page := range 50 {
			l.tell(ingest.Progress{Job: "charts", Work: "US", Works: 8, Page: page + 1, Units: int64(page + 1)})
		}
		l.tell(ingest.Progress{Job: "charts", Work: "US", Works: 8, Units: 50, Ended: &ingest.WorkReport{State: catalog.Done}})
		l.tell(ingest.Progress{Job: "charts", Work: "DE", Works: 8, Page: 1, Units: 1})
		tick <- time.Time{}
		tick <- time.Time{}
		synctest.Wait()
		l.close()
		if got := strings.Count(out.String(), "msg=running"); got != 1 {
			t.Errorf("%d lines:\n%s", got, &out)
		}
		if want := "job=charts done=1 of=8 pages=51 units=51"; !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, &out)
		}
	})
}
