package content_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota/book"
)

// In whatever pieces JSON comes, a reading finds what encoding/json finds.
func TestReadsLikeEncodingJSON(t *testing.T) {
	paths := []string{"a", "b", "a.b", "a.0", "b.1.a", "<&>", "<&>.a", "0", "1.b", "b.0.<&>"}
	var sources []*book.Source
	for _, path := range paths {
		sources = append(sources, &book.Source{Body: path}, &book.Source{Count: path})
	}
	s := content.NewSources(sources...)
	found := 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		body, err := json.Marshal(anyJSON(random, 0))
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 { // with spaces
			var wide bytes.Buffer
			_ = json.Indent(&wide, body, "", "\t")
			body = wide.Bytes()
		}
		var decoded any
		if err := json.Unmarshal(body, &decoded); err != nil {
			t.Fatal(err)
		}
		r := s.Read(content.Message{Length: -1})
		for rest := body; len(rest) > 0; {
			piece := bytes.Clone(rest[:min(1+random.IntN(1+random.IntN(60)), len(rest))])
			_, _ = r.Write(piece)
			clear(piece) // nobody may keep it
			rest = rest[len(piece):]
		}
		r.End(true)
		for i, path := range paths {
			value, count := "", ""
			switch at := at(decoded, path).(type) {
			case string:
				value = at
			case float64:
				value = strconv.FormatFloat(at, 'f', -1, 64)
			case bool:
				value = strconv.FormatBool(at)
			case []any:
				count = strconv.Itoa(len(at))
			}
			if text, _ := r.Text(2 * i); text != value {
				t.Errorf("%s of %s is %q, want %q", path, body, text, value)
			}
			if text, _ := r.Text(2*i + 1); text != count {
				t.Errorf("the length of %s of %s is %q, want %q", path, body, text, count)
			}
			found += len(value) + len(count)
		}
	}
	if found < 5000 {
		t.Errorf("only %d characters were found", found)
	}
}

// anyJSON makes something whose names are often those that are asked for.
func anyJSON(random *rand.Rand, depth int) any {
	text := func() string {
		var b strings.Builder
		for range random.IntN(1 + random.IntN(50)) {
			b.WriteString([]string{"x", "y", "word ", `"`, `\`, "{", "]", ",", ":", "é", "\n", "<"}[random.IntN(12)])
		}
		return b.String()
	}
	switch kind := random.IntN(10); {
	case kind < 5 && depth < 4 || depth == 0:
		all := map[string]any{}
		for range random.IntN(6) {
			name := []string{"a", "b", "0", "1", "<&>", text()}[random.IntN(6)]
			all[name] = anyJSON(random, depth+1)
		}
		return all
	case kind < 7 && depth < 4:
		all := make([]any, random.IntN(4))
		for i := range all {
			all[i] = anyJSON(random, depth+1)
		}
		return all
	case kind == 7:
		return random.IntN(2000) - 1000
	case kind == 8:
		return []any{true, false, nil}[random.IntN(3)]
	}
	return text()
}

// at returns what stands at a path.
func at(of any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch in := of.(type) {
		case map[string]any:
			of = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(in) {
				return nil
			}
			of = in[i]
		default:
			return nil
		}
	}
	return of
}
