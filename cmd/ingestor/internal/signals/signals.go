// Package signals catches the signals that ask a process to stop, almost from its
// first instruction on. A program that catches them in main still dies of a signal
// that arrives while its packages are set up, which takes tens of milliseconds.
// This package imports almost nothing, so Go sets it up before the large ones. For the same reason
// it puts off the first collection of garbage.
package signals

import (
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

// caught holds two signals: the first asks to stop, the second to stop at once.
var caught = make(chan os.Signal, 2)

func init() {
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	if os.Getenv("GOGC") == "" {
		collectLater()
	}
}

// collectLater puts the first collection off until the heap has 12 MB. Most commands end before,
// and would spend a tenth of their time on it. Then it is as Go has it, unless a command has set it.
func collectLater() {
	const first = 300
	debug.SetGCPercent(first)
	runtime.AddCleanup(new(*int), func(usual int) {
		if now := debug.SetGCPercent(usual); now != first {
			debug.SetGCPercent(now)
		}
	}, 100)
}

// Caught returns the channel of interrupts and SIGTERMs, from the start of the
// process on.
func Caught() <-chan os.Signal { return caught }

// Release stops catching: the next signal ends the process.
func Release() { signal.Stop(caught) }
