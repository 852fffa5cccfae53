package ingest

import (
	"slices"
	"testing"

	"github.com/headroom-quota/headroom"
)

// TestAKindIsOneRow adds a row to the table, and nothing else. Not parallel: it changes the
// table.
func TestAKindIsOneRow(t *testing.T) {
	before := kinds
	t.Cleanup(func() { kinds = before })
	kinds = append(slices.Clone(before), &kind{
		name: "comments", methods: []string{"videos.list"}, asks: true,
		list: "channels", pages: 7, opening: 2, daily: true, always: "@daily",
		works: func(_ *Runner, j *Job) (all []*Work) {
			for _, channel := range j.Channels {
				all = append(all, &Work{Name: channel})
			}
			return all
		},
	})
	c := Config{Jobs: map[string]Job{"talk": {Kind: "comments", Cron: "@hourly", Channels: []string{"a", "b"}}}}
	if faults := c.Prepare(); len(faults) > 0 {
		t.Fatal(faults)
	}
	j := c.Jobs["talk"]
	if calls, known := j.MostCalls(); j.Pages != 7 || calls != 2*(7+2) || !known {
		t.Errorf("%d pages, %d calls, %v", j.Pages, calls, known)
	}
	r := NewRunner(&c, nil, nil, nil, nil, nil)
	if works := r.works(&j); len(works) != 2 || works[1].Name != "b" {
		t.Errorf("the work is %v", works)
	}
	if !slices.Contains(Kinds(), "comments") || j.Regional() || j.Kind.Dated() || !slices.Equal(j.Kind.Methods(), []string{"videos.list"}) {
		t.Errorf("the kind is not as its row says")
	}
	for name, bad := range map[string]Job{
		"without its list":   {Kind: "comments", Cron: "@hourly"},
		"with another list":  {Kind: "comments", Cron: "@hourly", Channels: []string{"a"}, Queries: []string{"b"}},
		"not due once a day": {Kind: "comments", Cron: "@weekly", Channels: []string{"a"}},
	} {
		c := Config{Jobs: map[string]Job{"talk": bad}}
		if len(c.Prepare()) != 1 {
			t.Errorf("%s: there is no fault", name)
		}
	}
	c = Config{Jobs: map[string]Job{"charts": {Kind: Trending, Cron: "@hourly"}}}
	c.Prepare()
	if c.Jobs["comments"].Kind != "comments" {
		t.Errorf("the jobs are %v: the new kind is always there", c.Jobs)
	}
}

// TestEveryKindHasAPrice: the built-in price book has every method of every kind.
func TestEveryKindHasAPrice(t *testing.T) {
	book, err := headroom.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds() {
		if k.Runs() {
			continue // its program decides
		}
		if len(k.Methods()) == 0 {
			t.Errorf("%s calls nothing", k)
		}
		for _, method := range k.Methods() {
			if book.Upstreams[k.Upstream()].Methods[method] == nil {
				t.Errorf("%s calls %s, which has no price", k, method)
			}
		}
	}
}
