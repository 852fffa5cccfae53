package sqltext_test

import (
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/headroom-quota/headroom/internal/sqltext"
)

func TestStatementsAreNamed(t *testing.T) {
	const two = "-- first returns one. Args:\n-- none.\nSELECT 1;\n\n-- second returns two.\nSELECT\n\t2;\n"
	all := sqltext.Statements(file("sql/a.sql", two))
	if want := map[string]string{"first": "SELECT 1", "second": "SELECT\n\t2"}; !maps.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
	for name, text := range map[string]string{"no name": "SELECT 1;\n", "a name twice": "-- a is one.\nSELECT 1;\n\n-- a is two.\nSELECT 2;\n"} {
		refused(t, name, func() { sqltext.Statements(file("sql/a.sql", text)) })
	}
}

func TestStepsAreNumbered(t *testing.T) {
	files := file("schema/0002_more.sql", "second")
	refused(t, "a schema without a first step", func() { sqltext.Steps(files) })
	files["schema/0001_begin.sql"] = &fstest.MapFile{Data: []byte("first")}
	if all := sqltext.Steps(files); !slices.Equal(all, []string{"first", "second"}) {
		t.Errorf("got %q", all)
	}
}

func file(name, text string) fstest.MapFS {
	return fstest.MapFS{name: {Data: []byte(text), Mode: fs.ModePerm}}
}

// refused reports an error if do does not panic.
func refused(t *testing.T, name string, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: it was accepted", name)
		}
	}()
	do()
}
