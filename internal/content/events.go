package content

import "bytes"

// events splits server-sent events. It gives the data of each to a scanner, and ends each.
type events struct {
	to      *Reading
	field   [len("data")]byte // the beginning of the line
	length  int               // of the line so far, up to the end of its name
	inData  bool              // the line's name is data
	skip    bool              // the line is something else
	space   bool              // a space may follow the colon
	newline bool              // the last character was \r
	data    bool              // the event has data
	said    int               // characters of the event that are those of done
	done    bool              // an event said that it is the last
}

// lastEvent is the data of the event with which many upstreams end a stream.
const lastEvent = "[DONE]"

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
		if !whole {
			e.line(p)
			return
		}
		e.line(p[:n])
		e.newline = p[n] == '\r'
		e.endLine()
		p = p[n+1:]
	}
}

// line reads a part of a line.
func (e *events) line(p []byte) {
	if e.length == 0 && !e.inData && !e.skip && bytes.HasPrefix(p, []byte("data:")) { // mostly
		e.startData()
		p = p[len("data:"):]
	}
	for len(p) > 0 && !e.inData && !e.skip {
		c := p[0]
		switch {
		case e.length < len(e.field) && c != ':':
			e.field[e.length] = c
			e.length++
		case e.length == len(e.field) && c == ':' && string(e.field[:]) == "data":
			e.startData()
		default:
			e.skip = true
		}
		p = p[1:]
	}
	if !e.inData || len(p) == 0 {
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
	e.inData, e.space = true, true
	if e.data { // one more line of the same event
		e.to.json.write([]byte{'\n'})
		e.said = 0
	}
	e.data = true
}

// say compares the event with the last one.
func (e *events) say(p []byte) {
	for _, c := range p {
		if e.said < 0 {
			return
		}
		if e.said == len(lastEvent) || c != lastEvent[e.said] {
			e.said = -1
			return
		}
		e.said++
	}
}

func (e *events) endLine() {
	if e.length == 0 && !e.skip && !e.inData {
		e.end()
		return
	}
	e.length, e.inData, e.skip = 0, false, false
}

// end ends an event.
func (e *events) end() {
	if e.data {
		e.done = e.done || e.said == len(lastEvent)
		e.to.endPart()
	}
	e.data, e.said = false, 0
}
