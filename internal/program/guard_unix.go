//go:build unix

package program

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// guard is a process that kills a program and its children when this process dies, however
// that happens. It waits for the end of a pipe that only this process writes to. On Linux the
// system kills the program, but not its children.
type guard struct {
	cmd *exec.Cmd
	to  io.WriteCloser
}

// newGuard starts a guard, which then reads the id of its program. It starts before the
// program, so that the time between the two is short. A shell can do that.
func newGuard() (*guard, error) {
	g := &guard{cmd: exec.Command("/bin/sh", "-c", `read -r group && { read -r end; kill -s KILL -- "-$group"; }`)} //nolint:noctx // it has to outlive this process
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                                                         // signals for us are not for it
	to, err := g.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	g.to = to
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	return g, nil
}

// watch names the program.
func (g *guard) watch(cmd *exec.Cmd) {
	if g != nil {
		_, _ = fmt.Fprintln(g.to, cmd.Process.Pid)
	}
}

// stop ends the guard, and not its program.
func (g *guard) stop() {
	if g != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
	}
}

// inherit leaves a file open in a program and its children.
func inherit(cmd *exec.Cmd, f *os.File) { cmd.ExtraFiles = []*os.File{f} }
