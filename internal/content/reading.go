// Package content reads the numbers and texts that a price book names in a request or an
// answer, while the message passes by.
//
// A [Reading] is given the body in pieces, keeps only what was asked for, and needs a few
// KiB whatever the length of the body. It reads JSON, JSON that comes one value after
// another, server-sent events, and all of these in gzip.
package content

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reading reads the sources of one message. Write gives it the body in pieces, and End
// says that it is over.
type Reading struct {
	of     *Sources
	texts  []given // by source, of those that are not in the body
	length int64   // of the body
	known  bool    // length is known, or was counted to the end
	count  int64   // bytes of it so far, decoded
	most   int64   // bytes to decode of it; 0: as many as come
	took   func() time.Duration

	coding string // of a request that cannot be decoded here
	form   *form  // of a request: nil if its body is no form

	found  paths
	kept   []slot // of parts that are complete
	room   room
	json   scanner
	parts  int // that were complete
	events *events
	lines  bool      // each line is a value, and more may come
	mark   int       // bytes of a byte order mark so far; -1: what follows it has begun
	packed bool      // with gzip
	gzip   *inflater // nil until the body begins
	closed bool      // unreadable, or over
	whole  bool      // it is over, and was read to its end
}

type given struct {
	text string
	ok   bool
}

// room is enough for most messages, so that what they need is allocated at once.
type room struct {
	levels [8]level
	kinds  [1]uint64
	slots  [4]slot
	values [4][16]byte
	text   [128]byte
}

// Read begins to read a message.
func (s *Sources) Read(m Message) *Reading {
	r := &Reading{of: s, length: max(m.Length, 0), known: m.Length >= 0, most: m.Most, took: m.Took}
	for i, source := range s.all {
		if s.slots[i] < 0 && !source.Bytes && !source.Time {
			if r.texts == nil {
				r.texts = make([]given, len(s.all))
			}
			r.texts[i].text, r.texts[i].ok = m.text(source)
		}
	}
	if !s.NeedsBody(m.Length) {
		r.closed = true
		return r
	}
	slots := slices.Grow(r.room.slots[:0], 2*len(s.most))[:2*len(s.most)]
	for i := range slots {
		slots[i].most = s.most[i%len(s.most)]
		if i < len(r.room.values) {
			slots[i].text = r.room.values[i][:0]
		}
	}
	r.found = paths{root: s.root, slots: slots[:len(s.most)], levels: r.room.levels[:0]}
	r.kept = slots[len(s.most):]
	coding := strings.Join(m.Header.Values("Content-Encoding"), ", ")
	packed, readable := encodingOf(coding)
	r.packed, r.closed = packed, !readable // nobody here can decode the others
	r.json = scanner{to: &r.found, kinds: r.room.kinds[:0], text: r.room.text[:0]}
	kind, _, _ := strings.Cut(m.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case s.request && !s.body: // the length counts as it is sent
		r.packed, r.closed = false, false
		return r
	case s.request: // servers read JSON, whatever its type
		if r.found.of = s; !readable {
			r.coding = coding
		}
		if kind == "application/x-www-form-urlencoded" {
			r.form = &form{}
		}
		return r
	}
	switch kind {
	case "text/event-stream":
		r.events = &events{to: r}
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines", "application/json-seq", "application/stream+json":
		r.lines = true
	}
	return r
}

// Write reads the next piece of the body. It never fails.
func (r *Reading) Write(p []byte) (int, error) {
	switch {
	case r.closed || len(p) == 0:
	case r.packed:
		if r.gzip == nil {
			r.gzip = newInflater(r.most, r.read)
		}
		r.gzip.write(p)
	default:
		r.read(p)
	}
	return len(p), nil
}

func (r *Reading) read(p []byte) {
	if !r.known {
		r.length += int64(len(p))
	}
	r.count += int64(len(p))
	if r.mark >= 0 {
		p = r.unmarked(p)
	}
	if r.form != nil {
		r.form.write(p)
	}
	switch {
	case !r.of.body:
	case r.events != nil:
		r.events.write(p)
	default:
		r.json.write(p)
	}
}

// unmarked returns what follows the byte order mark with which some texts begin.
func (r *Reading) unmarked(p []byte) []byte {
	const mark = "\xef\xbb\xbf"
	for len(p) > 0 && r.mark < len(mark) && p[0] == mark[r.mark] {
		r.mark++
		p = p[1:]
	}
	if len(p) > 0 {
		r.mark = -1
	}
	return p
}

// endPart ends one event of a stream, or the only part of another body. Its values count if
// it was complete.
func (r *Reading) endPart() {
	if r.json.flush(); r.json.between() && r.json.values > 0 {
		if r.of.request && r.json.values > 1 { // some servers read the first only
			r.found.again(r.of.root)
		}
		r.parts++
		for i := range r.found.slots {
			if s := &r.found.slots[i]; s.found {
				r.kept[i], *s = *s, r.kept[i]
			}
		}
	}
	for i := range r.found.slots {
		r.found.slots[i].found = false
	}
	r.json.reset()
	r.found.levels = r.found.levels[:0]
}

// End ends the body: eof says that it was read to its end. Without it, the body still
// counts as whole if what came of it is.
func (r *Reading) End(eof bool) {
	if r.packed && (r.gzip == nil || !r.gzip.end()) {
		eof = false
	}
	if r.closed {
		return
	}
	r.closed = true
	if r.form != nil && eof {
		r.form.end()
	}
	r.known = r.known || eof
	switch {
	case !r.of.body:
		r.whole = eof
	case r.events != nil:
		if eof {
			r.events.end()
		}
		r.whole = (eof || r.events.done) && r.parts > 0
	default:
		if eof || !r.lines && r.json.state != inScalar {
			r.endPart()
			r.whole = r.parts > 0
		}
	}
}

func (r *Reading) raw(i int) (text string, ok bool) {
	source, at := r.of.all[i], r.of.slots[i]
	switch {
	case source.Bytes:
		length := r.length
		if r.of.request {
			length = max(length, r.count) // tokens are in what is packed
		}
		return strconv.FormatInt(length, 10), r.known
	case source.Time:
		if r.took == nil {
			return "", false
		}
		return strconv.FormatInt(r.took().Milliseconds(), 10), true
	case at < 0:
		return r.texts[i].text, r.texts[i].ok
	}
	if s := &r.kept[at]; r.whole && s.found && !s.bad {
		return string(s.text), true
	}
	return r.form.value(source)
}

// Text returns the text of a source, or its default.
func (r *Reading) Text(i int) (string, bool) {
	if text, ok := r.raw(i); ok {
		if text, ok = r.of.within(i, text); ok {
			return text, true
		}
	}
	text := r.of.all[i].DefaultText
	return text, text != ""
}

// Units returns the number of a source, or its default if the message does not have it. It
// returns false if there is no default.
func (r *Reading) Units(i int) (int64, bool) {
	source := r.of.all[i]
	if text, ok := r.Text(i); ok {
		n, ok := units(source, text)
		if !ok && r.of.request && source.Cases == nil && huge(text) { // it may cost more than any quota
			n, ok = units(source, mostText)
		}
		if ok {
			if at := r.of.slots[i]; at >= 0 && r.of.request && r.kept[at].twice && source.Default != nil {
				n = max(n, *source.Default) // the other value may be none
			}
			return n, true
		}
	}
	if source.Default == nil {
		return 0, false
	}
	return *source.Default, true
}

// Doubt says why the upstream may read other values in the body of a request than those that
// were found, or "". Declared says that the body is to be JSON. Long says that the body is
// longer than what may be decoded.
func (r *Reading) Doubt(declared bool) (why string, long bool) {
	if !r.of.body || !r.of.request {
		return "", false
	}
	switch {
	case r.coding != "":
		return fmt.Sprintf("its Content-Encoding is %.40q, and only gzip can be read", r.coding), false
	case r.gzip != nil && r.most > 0 && r.count > r.most:
		return "", true
	case r.gzip != nil && !r.gzip.whole:
		return "its gzip cannot be decoded", false
	case r.found.cut, r.form != nil && r.form.long:
		return "a value in it is too long", false
	case !r.whole && r.mark < 0 && (declared || r.json.looks):
		return "it is not one JSON text in UTF-8", false
	}
	for _, source := range r.of.all {
		if r.form != nil && len(r.form.values[source.Body]) > 1 {
			return source.Body + " stands in it twice", false
		}
	}
	for i := r.of.prices; i < len(r.of.all); i++ {
		if at := r.of.slots[i]; at >= 0 && r.kept[at].found && r.kept[at].twice {
			return r.of.all[i].Body + " stands in it twice", false
		}
	}
	return "", false
}

// Decodes reports whether the body will be decoded. It then needs a call of End once it has
// begun, even if nobody reads it to its end.
func (r *Reading) Decodes() bool { return r.packed && !r.closed }
