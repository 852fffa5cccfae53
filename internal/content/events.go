package content

import "bytes"

// events splits server-sent events. It gives the data of each to a scanner, and ends each.
type events struct {
	to      *Reading
	matched int  // bytes of the line that are those of field; -1: the line is something else
	space   bool // a space may follow the field
	newline bool // the last character was \r
	data    bool // the event has data
	said    int  // characters of the event that are those of lastEvent; -1: it is another one
	done    bool // an event said that it is the last
}

const (
	field = "data:"
	// lastEvent is the data of the event with which many upstreams end a stream.
	lastEvent = "[DONE]"
)

func (e *events) write(p []byte) {
	for len(p) > 0 {
		if e.newline && p[0] == '\n' { // of \r\n
			e.newline, p = false, p[1:]
			continue
		}
		e.newline = false
		n, whole := bytes.IndexByte(p, '\n'), true
		if n < 0 {
			n, whole = len(p), false
		}
		if i := bytes.IndexByte(p[:n], '\r'); i >= 0 {
			n, whole = i, true
		}
		if e.line(p[:n]); !whole {
			return
		}
		if e.newline = p[n] == '\r'; e.matched == 0 { // an empty line
			e.end()
		}
		e.matched = 0
		p = p[n+1:]
	}
}

func (e *events) line(p []byte) {
	for ; len(p) > 0 && e.matched >= 0 && e.matched < len(field); p = p[1:] {
		if p[0] != field[e.matched] {
			e.matched = -1
			return
		}
		if e.matched++; e.matched == len(field) {
			e.startData()
		}
	}
	if len(p) == 0 || e.matched < 0 {
		return
	}
	if e.space && p[0] == ' ' {
		p = p[1:]
	}
	e.space = false
	e.say(p)
	e.to.json.write(p)
}

func (e *events) startData() {
	e.space = true
	if e.data { // one more line of the same event
		e.to.json.write([]byte{'\n'})
		e.said = 0
	}
	e.data = true
}

func (e *events) say(p []byte) {
	for _, c := range p {
		if e.said < 0 || e.said == len(lastEvent) || c != lastEvent[e.said] {
			e.said = -1
			return
		}
		e.said++
	}
}

func (e *events) end() {
	if e.data {
		e.done = e.done || e.said == len(lastEvent)
		e.to.endPart()
	}
	e.data, e.said = false, 0
}
