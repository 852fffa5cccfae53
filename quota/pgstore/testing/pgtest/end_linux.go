package pgtest

import "syscall"

// endWithThread makes a process end with the thread that starts it.
func endWithThread(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
