package content

// Text is a text in a JSON object. In is the name of that object, if it is a member of
// the outermost one.
type Text struct {
	Depth    int // of objects; 1 is the outermost
	In, Name string
	Text     string
}

// Texts calls each for the texts in JSON that may be incomplete. Lists add no depth, and
// the objects in a list have the list's name.
func Texts(json []byte, each func(Text)) {
	s := scanner{to: &texts{each: each, long: len(json), levels: make([]opened, 1, 8)}}
	s.write(json)
}

// texts listens for all texts of objects.
type texts struct {
	each   func(Text)
	long   int      // bytes of a text
	levels []opened // the first is around all
	depth  int
	in     string // the name of the object of depth 2
}

// opened is an object or an array, with the name of its present member, or its own.
type opened struct {
	object bool
	name   string
}

func (t *texts) top() *opened { return &t.levels[len(t.levels)-1] }

func (t *texts) item() {}

func (t *texts) name(text []byte) { t.top().name = string(text) }

func (t *texts) open(object bool) bool {
	name := t.top().name
	if object {
		if t.depth++; t.depth == 2 {
			t.in = name
		}
		name = ""
	}
	t.levels = append(t.levels, opened{object, name}) // the objects of an array have its name
	return true
}

func (t *texts) end() {
	if t.top().object {
		t.depth--
	}
	t.levels = t.levels[:len(t.levels)-1]
}

func (t *texts) most() int {
	if t.top().object {
		return t.long
	}
	return 0
}

func (t *texts) value(text []byte, isText, _ bool) {
	if !isText {
		return
	}
	found := Text{Depth: t.depth, Name: t.top().name, Text: string(text)}
	if t.depth == 2 {
		found.In = t.in
	}
	t.each(found)
}
