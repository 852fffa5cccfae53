// Package pattern compiles regular expressions when they are first used. A program has dozens of
// them, and one command needs a few: to compile all took a third of the time of its start.
package pattern

import (
	"regexp"
	"sync"
)

// Of returns what returns the compiled expression. The first use panics if it is wrong.
func Of(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
