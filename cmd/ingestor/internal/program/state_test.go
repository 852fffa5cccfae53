package program

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeepState: only whole lines are passed on, and only messages of the type STATE count, or
// the bare states of a target.
func TestKeepState(t *testing.T) {
	long := `{"type": "RECORD", "record": "` + strings.Repeat("x", 3<<20) + `"}` + "\n"
	for name, c := range map[string]struct{ in, want string }{
		"messages": {`{"type": "STATE", "value": {"a": 1}}
{"type": "RECORD", "record": {"type": "STATE", "value": 7}}
{"record": {"type": "STATE", "value": 7}, "type": "RECORD"}
no JSON with "STATE"
{"type": "STATE", "value": {"a": [2]}}
{"type": "RECORD", "value": {"type": "STATE", "a": 8}}
{"type": "STATE", "value": {"a":`, `{"a": [2]}`},
		"of a target":             {"{\"bookmarks\": 1}\n{\"bookmarks\": 2}\n{\"bookmarks\"", `{"bookmarks": 2}`},
		"an object among records": {`{"type": "RECORD", "record": {}}` + "\n{\"count\": 2}\n", ""},
		"a long record":           {long + `{"type": "STATE", "value": 2}` + "\n" + long, "2"},
		"text":                    {"null\n7\n[1]\nword\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state.json")
			if has, err := beginState(file); err != nil || has {
				t.Fatal(has, err)
			}
			var out bytes.Buffer
			kept, err := keepState(&out, strings.NewReader(c.in), file)
			if err != nil || kept != (c.want != "") {
				t.Fatal(kept, err)
			}
			if whole := c.in[:strings.LastIndexByte(c.in, '\n')+1]; out.String() != whole {
				t.Errorf("passed on %d bytes of %d", out.Len(), len(whole))
			}
			if c.want == "" {
				c.want = "{}"
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != c.want+"\n" {
				t.Errorf("kept %q %v", text, err)
			}
		})
	}
	const state = `{"type": "STATE", "value": 1}` + "\n"
	if _, err := keepState(io.Discard, strings.NewReader(state), filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("a state that cannot be kept is no error")
	}
	endless := io.LimitReader(zeros{}, maxLine+2)
	if _, err := keepState(io.Discard, endless, ""); err == nil || !strings.Contains(err.Error(), "longer than 64 MiB") {
		t.Errorf("an endless line: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestStateFile: it begins with an empty object, and keeps its mode and a link to it.
func TestStateFile(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link.json"), filepath.Join(dir, "real.json")
	if err := os.Symlink("real.json", link); err != nil {
		t.Fatal(err)
	}
	for range 2 { // of the second there is one
		if has, err := beginState(link); err != nil || has {
			t.Fatal(has, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "{}\n" {
			t.Errorf("it begins with %q %v", text, err)
		}
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "new" {
		t.Errorf("it has %q %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v %v", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v %v", info, err)
	}
	if has, err := beginState(link); err != nil || !has {
		t.Fatal(has, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "new" {
		t.Errorf("a state that is there becomes %q %v", text, err)
	}
}
