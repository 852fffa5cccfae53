package sqlfiles

import (
	"testing"
	"testing/fstest"
)

func TestStatementsAreNamed(t *testing.T) {
	file := func(text string) fstest.MapFS { return fstest.MapFS{"sql/a.sql": {Data: []byte(text)}} }
	const two = "-- first returns one. Args:\n-- none.\nSELECT 1;\n\n-- second returns two.\nSELECT 2;\n"
	all := Statements(file(two))
	if len(all) != 2 || all["first"] != "-- first returns one. Args:\n-- none.\nSELECT 1" || all["second"] != "-- second returns two.\nSELECT 2" {
		t.Errorf("got %q", all)
	}
	for name, text := range map[string]string{"no name": "SELECT 1;\n", "a name twice": "-- a is one.\nSELECT 1;\n\n-- a is two.\nSELECT 2;\n"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it was accepted", name)
				}
			}()
			Statements(file(text))
		}()
	}
}

func TestStepsAreNumbered(t *testing.T) {
	files := fstest.MapFS{"schema/0001_a.sql": {Data: []byte("SELECT 1;")}, "schema/0002_b.sql": {Data: []byte("SELECT 2;")}}
	if all := Steps(files); len(all) != 2 || all[1] != "SELECT 2;" {
		t.Errorf("got %q", all)
	}
	delete(files, "schema/0001_a.sql")
	defer func() {
		if recover() == nil {
			t.Error("a missing step was accepted")
		}
	}()
	Steps(files)
}
