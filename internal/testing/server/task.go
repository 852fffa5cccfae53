package server

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Task says in a prompt what a model shall do. A test knows so what a call really costs.
type Task struct {
	Output  int64         // tokens that the model writes, if the request allows so many
	Latency time.Duration // of the whole answer
	Fault   Fault
	Filler  int // bytes of prompt besides
}

// Fault is how a server fails.
type Fault string

const (
	Cut      Fault = "cut"      // the answer ends in its middle
	Lost     Fault = "lost"     // the connection is lost before the answer
	Mute     Fault = "mute"     // the answer has no usage
	Huge     Fault = "huge"     // it says 1e308
	Negative Fault = "negative" // it says -5
	Text     Fault = "text"     // it says "many"
	Nested   Fault = "nested"   // it has 10 MB of nested arrays before its usage
	Error    Fault = "error"    // status 500; it is not charged
)

// String returns the prompt.
func (t Task) String() string {
	s := fmt.Sprintf("Write %d tokens in %s.", t.Output, t.Latency)
	if t.Fault != "" {
		s += " Fault: " + string(t.Fault) + "."
	}
	return s + strings.Repeat(" word", t.Filler/5)
}

var taskWords = regexp.MustCompile(`Write (\d+) tokens in ([0-9a-zµ.]*[a-z])\.(?: Fault: ([a-z]+)\.)?`)

// readTask finds the task in the body of a request. Without one the answer is short.
func readTask(body string) Task {
	m := taskWords.FindStringSubmatch(body)
	if m == nil {
		return Task{Output: 16}
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	d, _ := time.ParseDuration(m[2])
	return Task{Output: n, Latency: d, Fault: Fault(m[3])}
}

// tokens returns how many tokens the model makes of a text: fewer than one in 4 bytes.
func tokens(text string) int64 { return int64(len(text))/5 + 1 }
