package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestExecOnATerminal: a program can read from the terminal, which the shell has again when the
// program has ended. A person who interrupts it there defers the job.
func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 10, "")
	metered := f.program(t.Context(), "exec", "--job", "tty", "--", "/bin/sh", "-c", `echo first?; read -r a; echo "got $a."`)
	for _, typed := range []struct{ answer, want string }{
		{"bob\n", "got bob."},
		{"\x03", "it left with 75."},
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `trap : INT; "$@"; echo "it left with $?."; echo second?; read -r b; echo "then $b."`, "sh")
		cmd.Args = append(cmd.Args, metered.Args...)
		cmd.Env, cmd.Dir = metered.Env, metered.Dir
		screen, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		shown := &screenText{}
		read := make(chan struct{})
		go func() {
			_, _ = io.Copy(shown, screen) // it fails when all have ended
			close(read)
		}()
		for _, step := range []struct{ wait, answer string }{{"first?", typed.answer}, {"second?", "eve\n"}} {
			shown.await(t, step.wait)
			if _, err := io.WriteString(screen, step.answer); err != nil {
				t.Fatal(err)
			}
		}
		shown.await(t, "then eve.")
		_ = cmd.Wait()
		<-read
		_ = screen.Close()
		if text := shown.String(); !strings.Contains(text, typed.want) {
			t.Errorf("after %q it shows %q", typed.answer, text)
		}
	}
}

// screenText is what a terminal shows.
type screenText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screenText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screenText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the terminal shows a text.
func (s *screenText) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q is not there: %q", text, s.String())
		}
	}
}
