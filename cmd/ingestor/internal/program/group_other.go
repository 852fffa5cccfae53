//go:build !unix

package program

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func askToStop(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }

func kill(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func terminal(*exec.Cmd) (back func()) { return func() {} }

func interrupted(*exec.Cmd, error) bool { return false }

type guard struct{}

func newGuard(any) (*guard, error) { return nil, nil }

func (*guard) watch(*exec.Cmd) {}

func (*guard) stop() {}
