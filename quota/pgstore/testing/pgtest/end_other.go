//go:build !linux

package pgtest

import "syscall"

func endWithThread(*syscall.SysProcAttr) {}
