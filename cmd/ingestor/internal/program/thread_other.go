//go:build unix && !linux

package program

import "syscall"

func endWithThread(*syscall.SysProcAttr) {}
