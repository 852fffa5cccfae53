package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// What costs learned prints is a piece of a price book, whatever kind of limit was learned.
func TestWhatWasLearnedIsAPieceOfABook(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	pool := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	for places, want := range map[int]string{0: "150 [1m]", 3: "3 [at once]"} {
		p := view.Pool{Pool: "youtube/units", Learned: &view.Learned{Rate: 2, Measured: 2.5, Places: places, Refusals: 4, Since: &at, MeasuredAt: &at}}
		piece := learnedBook(&quota.Usage{PageState: quota.PageState{Pool: pool}}, &p)
		b, err := book.Parse("costs.yaml", []byte("extends: builtin\nrevision: 101\n"+strings.Replace(piece, "{quota", "{headroom: null, quota", 1)), &book.Options{Builtins: headroom.ReadBuiltin})
		if err != nil {
			t.Errorf("%v in\n%s", err, piece)
			continue
		}
		w := b.Upstreams["youtube"].Pools["units"].Windows
		if got := fmt.Sprint(w[0].Quota, w); got != want {
			t.Errorf("the windows are %s, want %s, of\n%s", got, want, piece)
		}
	}
}
