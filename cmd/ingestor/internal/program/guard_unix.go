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
// system kills the program, but not its children. The guard also keeps the lock of the job until
// it has killed them. The program itself does not have the lock, because a child that it leaves
// behind would keep it for ever.
type guard struct {
	cmd *exec.Cmd
	to  io.WriteCloser
}

// newGuard starts a guard, which then reads the id of its program. It starts before the
// program, so that the time between the two is short. A shell can do that. If the lock of the
// job is a file, the guard inherits it.
func newGuard(lock any) (*guard, error) {
	g := &guard{cmd: exec.Command("/bin/sh", "-c", `read -r group && { read -r end; kill -s KILL -- "-$group"; }`)} //nolint:noctx // it has to outlive this process
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                                                         // signals for us are not for it
	g.cmd.Stderr = os.Stderr                                                                                        // who waits for its end waits for the guard's, too
	if l, ok := lock.(interface{ File() *os.File }); ok {
		g.cmd.ExtraFiles = []*os.File{l.File()}
	}
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
