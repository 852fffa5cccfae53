package meter

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecent(t *testing.T) {
	near := func(got int64, least, most float64) {
		t.Helper()
		if float64(got) < least || float64(got) > most {
			t.Errorf("%d is not from %g to %g", got, least, most)
		}
	}
	var even, bimodal, none recent
	for n := range 2000 {
		even.add(int64(n * 379 % 1000)) // each once in a thousand calls, in no order
		none.add(0)
		cost := int64(100)
		if n%33 == 0 { // chance would make them rarer than one in a hundred at times
			cost = 50_000
		}
		bimodal.add(cost)
	}
	near(even.within(95), 900, 1100)
	near(even.within(50), 499, 600) // the mean is 500
	near(none.within(95), 0, 0)
	near(bimodal.within(95), 400, 4500) // the mean: 95 of 100 cost 100
	near(bimodal.within(99), 50_000, 55_000)
	for range 1000 { // they have all become dear
		even.add(100_000)
	}
	near(even.within(50), 100_000, 110_000)
	var exact recent
	exact.add(1 << 30)
	near(exact.within(95), 1<<30, 1<<30)
	if len(even.Count) > steps {
		t.Errorf("%d steps", len(even.Count))
	}
}

func TestMemoryIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs.json")
	of := costOf{"model", "default", "ask", "tokens", ""}
	var log strings.Builder
	open := func() *memory {
		m := &memory{}
		m.load(file, slog.New(slog.NewTextHandler(&log, nil)))
		return m
	}
	m := open()
	for n := range enoughCalls {
		if _, ok := m.recall(of, 95); ok {
			t.Errorf("%d calls are enough", n)
		}
		m.learn(of, 700)
	}
	if n, ok := m.recall(of, 95); n < 700 || n > 770 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if err := m.save(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	before, _ := m.recall(of, 95)
	if n, ok := open().recall(of, 95); n != before || !ok || log.Len() > 0 {
		t.Errorf("%d, %v after a restart; %s", n, ok, log.String())
	}
	for _, text := range []string{
		"", "{", `{"Form":9}`, `{"Form":1,"Costs":[{"Of":{},"Cost":{"Seen":50,"Count":{"9999":1}}},{"Of":{}},{"Of":{},"Cost":{"Seen":50,"Count":{"3":-1}}}]}`,
		`{"Form":1,"Costs":[{"Of":{},"Cost":{"Seen":50}},{"Of":{},"Cost":{"Seen":50,"Count":{"3":0},"Sum":9}}]}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := len(open().costs); n != 0 {
			t.Errorf("%q: %d costs", text, n)
		}
	}
	if n := strings.Count(log.String(), "learned anew"); n != 3 {
		t.Errorf("%d lines in the log: %s", n, log.String())
	}
	for n := range mostLearned + 10 {
		m.learn(costOf{Account: string(rune(n))}, 1)
	}
	if len(m.costs) > mostLearned {
		t.Errorf("%d costs are kept", len(m.costs))
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".costs*"))
	if len(files)+len(hidden) != 1 {
		t.Errorf("files are left: %v %v", files, hidden)
	}
}
