package console

import (
	"io"
	"os"
	"sync"

	"github.com/charmbracelet/x/term"
)

// Lines is a writer whose destination can change while it is in use. Progress bars redirect
// the log so that it stays above them.
type Lines struct {
	mu sync.Mutex
	w  io.Writer
}

// Redirect changes the destination.
func (l *Lines) Redirect(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = w
}

// Write implements [io.Writer].
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// Colourful reports whether to write colours to w: on a terminal, unless NO_COLOR is set
// (no-color.org).
func Colourful(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
