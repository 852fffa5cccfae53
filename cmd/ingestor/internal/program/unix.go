//go:build unix

package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup starts a program in a process group of its own, so that its children get the
// signals, too.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithThread(cmd.SysProcAttr)
}

// askToStop asks a program and its children to stop.
func askToStop(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// kill ends a program and its children.
func kill(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

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

// terminal lets a program that is about to start read from the terminal, which only the group
// in the foreground may. It does nothing if standard input is no terminal, or is that of
// others. Back puts this process into the foreground again.
func terminal(cmd *exec.Cmd) (back func()) {
	in, ok := cmd.Stdin.(*os.File)
	if !ok {
		return func() {}
	}
	fd := int(in.Fd())
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return func() {}
	}
	cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, fd
	return func() {
		signal.Ignore(syscall.SIGTTOU) // which stops those in the background that ask for this
		defer signal.Reset(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) // the terminal may be gone
	}
}

// interrupted reports whether a person has ended a program from the terminal. This process
// does not get that signal, because it is in the background.
func interrupted(cmd *exec.Cmd, err error) bool {
	var ended *exec.ExitError
	if !cmd.SysProcAttr.Foreground || !errors.As(err, &ended) {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGINT
}
