package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeepState: only whole lines are passed on, and only messages of the type STATE count.
func TestKeepState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	in := `{"type": "STATE", "value": {"a": 1}}
{"type": "RECORD", "record": {"type": "STATE", "value": 7}}
no JSON with "STATE"
{"type": "STATE", "value": {"a": [2]}}
{"type": "RECORD", "value": {"type": "STATE", "a": 8}}
{"type": "STATE", "value": {"a":`
	var out bytes.Buffer
	if err := keepState(&out, strings.NewReader(in), file); err != nil {
		t.Fatal(err)
	}
	if whole := in[:strings.LastIndexByte(in, '\n')+1]; out.String() != whole {
		t.Errorf("passed on %q", &out)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{\"a\": [2]}\n" {
		t.Errorf("kept %q %v", text, err)
	}
	if err := keepState(&out, strings.NewReader(in), filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("a state that cannot be kept is no error")
	}
	endless := strings.NewReader(strings.Repeat("x", 2<<20))
	if err := keepState(&out, endless, file); err == nil || !strings.Contains(err.Error(), "longer than 1 MiB") {
		t.Errorf("an endless line: %v", err)
	}
}
