//go:build !unix

package pgtest

import "syscall"

func own(string) error { return nil }

func owner() *syscall.SysProcAttr { return nil }
