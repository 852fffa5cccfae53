// Package collect puts the first collection of garbage off until the heap has 12 MB. Most commands
// end before, and would spend a tenth of their time on it. Go sets this package up before the large
// ones, which may need a collection already.
package collect

import (
	"os"
	"runtime"
	"runtime/debug"
)

func init() {
	if os.Getenv("GOGC") == "" {
		later()
	}
}

// later changes the target until there was a collection. Then it is as Go has it, unless a command
// has set it.
func later() {
	const first = 300
	debug.SetGCPercent(first)
	runtime.AddCleanup(new(*int), func(usual int) {
		if now := debug.SetGCPercent(usual); now != first {
			debug.SetGCPercent(now)
		}
	}, 100)
}
