package program

import "syscall"

// endWithThread has a program killed when the thread that starts it ends.
func endWithThread(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
