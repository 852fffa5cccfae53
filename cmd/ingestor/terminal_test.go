package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// TestOnATerminal looks at the demo as people do.
func TestOnATerminal(t *testing.T) {
	for _, tt := range []struct {
		name           string
		columns        uint16
		env            []string
		colour, cursor bool
	}{
		{"a terminal", 100, []string{"TERM=xterm-256color"}, true, true},
		{"no colour", 100, []string{"TERM=xterm-256color", "NO_COLOR=1"}, false, true},
		{"a dumb one", 100, []string{"TERM=dumb"}, false, false},
		{"a narrow one", 40, []string{"TERM=xterm"}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // a demo takes its time, so that it can be watched
			shown := onTerminal(t, tt.columns, append(tt.env, "TMPDIR="+t.TempDir(), "TZ=UTC"), "demo")
			if got := colours.MatchString(shown); got != tt.colour {
				t.Errorf("colour: %t\n%q", got, shown)
			}
			if got := strings.Contains(shown, "━"); got != tt.cursor {
				t.Errorf("bars: %t", got)
			}
			if !tt.colour && !tt.cursor && strings.Contains(shown, "\x1b") {
				t.Errorf("it moves the cursor: %q", shown)
			}
			text := ansi.Strip(shown)
			for _, want := range []string{"Run 1", "Run 2", "deferred", "refused: 0", "ingestor init"} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not there:\n%s", want, text)
				}
			}
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line[strings.LastIndex(strings.TrimRight(line, "\r\n"), "\r")+1:], "\r\n")
				if wide := ansi.StringWidth(line); wide > int(tt.columns) && !strings.Contains(line, "/") {
					t.Errorf("%d columns: %s", wide, line)
				}
			}
		})
	}
}

// TestOutputFitsATerminal looks at what is shown without a run: no line is wider than
// the terminal but for a word that cannot be broken, no path is cut.
func TestOutputFitsATerminal(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once", "--quiet"); r.code != console.ExitDone {
		t.Fatal(r)
	}
	for _, columns := range []uint16{40, 80, 200} {
		for _, command := range []string{"check", "config show", "costs show videos.list", "doctor", "quota", "quota spend", "regions --max-age 9999d", "runs", "runs --work", "state show", "trending US", "search a", "version"} {
			args := append([]string{"--config", f.path("ingestor.yaml")}, strings.Fields(command)...)
			shown := onTerminal(t, columns, []string{"TERM=xterm-256color", "TZ=UTC", "XDG_STATE_HOME=" + f.dir}, args...)
			if !colours.MatchString(shown) && command != "version" && command != "doctor" {
				t.Errorf("%s has no colour", command)
			}
			for line := range strings.SplitSeq(ansi.Strip(shown), "\r\n") {
				words := strings.Fields(line)
				if wide := ansi.StringWidth(line); wide > int(columns) && len(words) > 1 && ansi.StringWidth(words[len(words)-1]) < int(columns)/2 {
					t.Errorf("%s: %d columns of %d: %q", command, wide, columns, line)
				}
				if columns >= 80 && strings.Contains(line, f.dir[:len(f.dir)/2]) && strings.Contains(line, "…") {
					t.Errorf("%s cuts a path: %q", command, line)
				}
				if strings.HasSuffix(line, " ") {
					t.Errorf("%s ends a line with blanks: %q", command, line)
				}
			}
		}
	}
}

// onTerminal runs the program on a terminal of so many columns, and returns all that
// it wrote there.
func onTerminal(t *testing.T, columns uint16, env []string, args ...string) string {
	t.Helper()
	shown, err := leftTerminal(t, columns, env, args...)
	if err != nil {
		t.Errorf("%v\n%s", err, shown)
	}
	return shown
}

// leftTerminal is onTerminal for programs that may leave with any exit code.
func leftTerminal(t *testing.T, columns uint16, env []string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("ingestor")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = env
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	_, err = io.Copy(&shown, terminal)
	var gone *os.PathError
	if err != nil && !(errors.As(err, &gone) && errors.Is(gone.Err, syscall.EIO)) { // how Linux says that the other end has left
		t.Error(err)
	}
	left := cmd.Wait()
	if err := terminal.Close(); err != nil {
		t.Error(err)
	}
	return shown.String(), left
}
