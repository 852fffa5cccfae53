// Package signals catches the signals that ask a process to stop, almost from its
// first instruction on. A program that catches them in main still dies of a signal
// that arrives while its packages are set up, which takes tens of milliseconds.
// This package imports almost nothing, so Go sets it up before the large ones.
package signals

import (
	"os"
	"os/signal"
	"syscall"
)

// caught holds two signals: the first asks to stop, the second to stop at once.
var caught = make(chan os.Signal, 2)

func init() { signal.Notify(caught, os.Interrupt, syscall.SIGTERM) }

// Caught returns the channel of interrupts and SIGTERMs, from the start of the
// process on.
func Caught() <-chan os.Signal { return caught }

// Release stops catching: the next signal ends the process.
func Release() { signal.Stop(caught) }
