//go:build unix

package program

import (
	"os/exec"
	"syscall"
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
