package view

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

const hostile = "javascript:a\x1b[31mred\u202egnp\u2066\u009b2J"

// fill sets each text of a value to a hostile one.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct && v.Type().Elem() != reflect.TypeFor[time.Location]() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[time.Time]() {
				fill(v.Field(i))
			}
		}
	}
}

func filled[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// No text from outside reaches JSON with what terminals and browsers obey, whatever field it
// stands in.
func TestJSONHoldsNothingToObey(t *testing.T) {
	now := time.Now()
	spent := filled[quota.Spent]()
	spent.Day = "2026-11-23"
	run := filled[catalog.RunRecord]()
	run.State, run.Work[0].State = catalog.Done, catalog.Done
	usage := filled[quota.Usage]()
	usage.Now, usage.Blocked, usage.BlockedBy, usage.Allowances = now, now.Add(time.Hour), "", nil
	found := filled[catalog.Results]()
	found.Cursor = "" // we make it
	for name, v := range map[string]any{
		"video": OneVideo(filled[catalog.Video]()),
		"chart": OneChart(filled[catalog.Chart](), now, time.Hour),
		"feeds": Feeds([]catalog.Feed{filled[catalog.Feed]()}, nil, now, time.Hour),
		"feed":  SearchFeed(filled[ingest.Freshness](), now, time.Hour),
		"hits":  Found(found),
		"runs":  Runs([]catalog.RunRecord{run}),
		"spend": Spend([]quota.Spent{spent}, []quota.Dimension{quota.ByAccount}),
		"pools": Pools([]quota.Usage{usage}),
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, obeyed := range []string{`\u001b`, "\u202e", "\u2066", "\u009b", `"thumbnail":"javascript:`} {
			if strings.Contains(string(text), obeyed) {
				t.Errorf("%s: %q in %s", name, obeyed, text)
			}
		}
		if !strings.Contains(string(text), "[31mredgnp2J") {
			t.Errorf("%s: the text itself is missing: %s", name, text)
		}
	}
}
