package meter

import "testing"

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

func TestMemory(t *testing.T) {
	of := costOf{"model", "default", "ask", "tokens", ""}
	m := &memory{costs: make(map[costOf]*recent)}
	for n := range enoughCalls {
		if _, ok := m.recall(of, 95); ok {
			t.Errorf("%d calls are enough", n)
		}
		m.learn(of, 700)
	}
	if n, ok := m.recall(of, 95); n < 700 || n > 770 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	for n := range mostLearned + 10 {
		m.learn(costOf{Account: string(rune(n))}, 1)
	}
	if len(m.costs) > mostLearned {
		t.Errorf("%d costs are kept", len(m.costs))
	}
}

// A note that this version did not write is written anew.
func TestNotesThatAreNotSound(t *testing.T) {
	sound := costOf{"model", "default", "ask", "tokens", ""}
	m := &memory{costs: make(map[costOf]*recent)}
	m.learn(sound, 700)
	all, _ := m.merge("", sound.method(), &sharedCosts{})
	if read, _ := (&memory{}).merge(noteOf(all), sound.method(), &sharedCosts{}); len(read) != 1 || read[sound].Seen != 1 {
		t.Errorf("a note that is sound: %v", read)
	}
	for _, text := range []string{
		"", "{", `{"Form":9}`, `{"Form":1,"Costs":[{"Of":{},"Cost":{"Seen":50,"Count":{"9999":1}}},{"Of":{}},{"Of":{},"Cost":{"Seen":50,"Count":{"3":-1}}}]}`,
		`{"Form":1,"Costs":[{"Of":{},"Cost":{"Seen":50}},{"Of":{},"Cost":{"Seen":50,"Count":{"3":0},"Sum":9}}]}`,
	} {
		if all, _ := (&memory{}).merge(text, costOf{}, &sharedCosts{}); len(all) != 0 {
			t.Errorf("%q: %d costs", text, len(all))
		}
	}
}
