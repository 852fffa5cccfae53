//go:build unix

package program

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

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
