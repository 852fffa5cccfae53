package youtubesim

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// method is one that is simulated.
type method struct {
	name    string // videos.list
	service string // as refusals name it
	kind    string // of what it answers
	pool    Pool
	oldCost int64
	parts   map[string]part
	params  []string
	serve   func(*call) *failure
}

// part is what the part parameter names: a bit in a call's parts, or one that only
// the owner may have.
type part uint16

const owners part = 0

// methods by their verb and path.
var methods = map[string]*method{
	"GET /youtube/v3/videos":                   videosList,
	"GET /youtube/v3/videos:batchGetStats":     videosBatchGetStats,
	"GET /youtube/v3/search":                   searchList,
	"GET /youtube/v3/channels":                 channelsList,
	"GET /youtube/v3/playlistItems":            playlistItemsList,
	"POST /youtube/v3/videos":                  videosInsert,
	"POST /upload/youtube/v3/videos":           videosInsert,
	"POST /resumable/upload/youtube/v3/videos": videosInsert,
}

// videosInsert needs more than a key, so it never does anything. It is here
// because it costs all the same.
var videosInsert = &method{
	name: "videos.insert", service: "V3DataVideoService.Insert", pool: VideoInsert, oldCost: 1600,
	parts:  map[string]part{"snippet": 1, "status": 1, "contentDetails": 1, "id": 1, "localizations": 1, "player": 1, "statistics": 1, "recordingDetails": 1, "topicDetails": 1},
	params: []string{"part", "autoLevels", "notifySubscribers", "onBehalfOfContentOwner", "onBehalfOfContentOwnerChannel", "stabilize"}, //nolint:misspell // the upstream spells it so
	serve:  func(*call) *failure { return loginRequired() },
}

// everyMethod are the parameters that each method takes.
var everyMethod = []string{"$.xgafv", "access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser", "uploadType", "upload_protocol", "$alt", "$prettyPrint"}

// call is one that was paid for.
type call struct {
	sim    *Sim
	world  world
	method *method
	query  url.Values
	now    int64
	parts  part
	within []Fault
	out    *writer
	tag    [16]byte // of what is written
}

// answer writes what a call answers, or says what is wrong with it.
func (c *call) answer() *failure {
	for name := range c.query {
		if !slices.Contains(c.method.params, name) && !slices.Contains(everyMethod, name) {
			return unknownParameter(name)
		}
	}
	m, wrong := parseFields(c.query.Get("fields"))
	if wrong != "" {
		return invalidParameter("fields", "Invalid field selection "+wrong)
	}
	c.out.mask = append(c.out.mask[:0], m)
	if f := c.readParts(); f != nil {
		return f
	}
	return c.method.serve(c)
}

func (c *call) readParts() *failure {
	named := c.list("part")
	if len(named) == 0 {
		if c.sim.generation == OnePool {
			return failed(400, "global", "required", "Required parameter: part").at("part", "parameter").older()
		}
		return missingParameter("part")
	}
	for _, name := range named {
		p, ok := c.method.parts[name]
		if !ok {
			return unknownPart(name)
		}
		if p == owners {
			return ownersPart(name)
		}
		c.parts |= p
	}
	return nil
}

// list reads a parameter that may be repeated and may hold commas.
func (c *call) list(name string) []string {
	var all []string
	for _, v := range c.query[name] {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimSpace(one); one != "" && !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// ids reads the id parameter: at most 50.
func (c *call) ids() ([]string, *failure) {
	ids := c.list("id")
	if len(ids) > 50 {
		return nil, invalidFilter("id")
	}
	return ids, nil
}

// maxResults is 5 if it is not given.
func (c *call) maxResults(least int) (int, *failure) {
	s := c.query.Get("maxResults")
	if s == "" {
		return 5, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, invalidParameter("maxResults", "Invalid unsigned integer value: '"+s+"'.")
	}
	if int(n) < least || n > 50 {
		return 0, invalidParameter("maxResults", "Invalid value '"+s+"'. Values must be within the range: ["+strconv.Itoa(least)+", 50]")
	}
	return int(n), nil
}

// region reads regionCode.
func (c *call) region(otherwise string) (int, *failure) {
	code := c.query.Get("regionCode")
	if code == "" {
		code = otherwise
	}
	r, ok := regionOf(code)
	if !ok {
		return 0, failed(400, "youtube.parameter", "invalidRegionCode", "The regionCode parameter specifies an invalid region code.").at("regionCode", "parameter")
	}
	return r, nil
}

// category reads videoCategoryId. It is -1 for all, and len(categories) for one
// that nothing is in.
func (c *call) category() (int, *failure) {
	id := c.query.Get("videoCategoryId")
	if id == "" || id == "0" {
		return -1, nil
	}
	for i := range categories {
		if categories[i].id == id {
			return i, nil
		}
	}
	if slices.Contains(otherCategories, id) {
		return len(categories), nil
	}
	return 0, failed(400, "youtube.parameter", "invalidCategoryId", "The videoCategoryId parameter specifies an invalid category ID.").at("videoCategoryId", "parameter")
}

// moment reads a time, or returns otherwise.
func (c *call) moment(name string, otherwise int64) (int64, *failure) {
	s := c.query.Get(name)
	if s == "" {
		return otherwise, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, invalidParameter(name, "Invalid value '"+s+"'. It must be an RFC 3339 date-time such as 2026-11-01T00:00:00Z.")
	}
	return t.Unix(), nil
}

// oneOf reads a parameter that takes certain values only.
func (c *call) oneOf(name string, values ...string) (string, *failure) {
	s := c.query.Get(name)
	if s == "" || slices.Contains(values, s) {
		return s, nil
	}
	return "", invalidParameter(name, "Invalid string value: '"+s+"'. Allowed values: ["+strings.Join(values, ", ")+"]")
}

// filters are those of names that the request has.
func (c *call) filters(names ...string) (given []string) {
	for _, n := range names {
		if c.query.Has(n) {
			given = append(given, n)
		}
	}
	return given
}

// page reads pageToken, or begins a walk as of a time. The token must be of the
// same request: what is asked, not how it is shown.
func (c *call) page(at int64) (pageToken, *failure) {
	about := c.about()
	s := c.query.Get("pageToken")
	if s == "" {
		return pageToken{at: at, about: about}, nil
	}
	t, ok := c.world.decodeToken(s)
	if !ok || t.about != about {
		return pageToken{}, invalidPageToken()
	}
	return t, nil
}

// about is what a walk is about.
func (c *call) about() uint64 {
	var b strings.Builder
	b.WriteString(c.method.name)
	for _, name := range c.method.params {
		switch name {
		case "part", "maxResults", "pageToken", "hl", "maxWidth", "maxHeight":
			continue
		}
		for _, v := range c.query[name] {
			b.WriteByte(0)
			b.WriteString(name)
			b.WriteByte('=')
			b.WriteString(v)
		}
	}
	return c.world.hashText(ofToken, b.String()) & 0xffffffff
}

// within a list of so many, a page's bounds, and the tokens beside it.
func (c *call) bounds(t pageToken, size, length int) (from, to int, next, prev string) {
	from = int(t.offset)
	if c.endless() && length > 0 {
		from %= length
	}
	from = min(from, length)
	to = min(from+size, length)
	if to < length || c.endless() {
		n := t
		n.offset += int64(to - from)
		next = c.world.encodeToken(n)
	}
	if t.offset > 0 {
		p := t
		p.offset = max(t.offset-int64(size), 0)
		prev = c.world.encodeToken(p)
	}
	return from, to, next, prev
}

func (c *call) endless() bool { return suffers(c.within, Endless, "") }

// envelope writes what is around the items of every list.
func (c *call) envelope(next, prev string, total, size int, items func()) {
	w := c.out
	w.buf = append(w.buf, '{')
	w.str("kind", c.method.kind)
	tag := w.etag()
	if next != "" {
		w.str("nextPageToken", next)
	}
	if prev != "" {
		w.str("prevPageToken", prev)
	}
	if size >= 0 && w.begin("pageInfo", '{') {
		w.number("totalResults", total)
		w.number("resultsPerPage", size)
		w.end('}')
	}
	items()
	w.buf = append(w.buf, '}')
	after := 0
	if tag >= 0 {
		after = tag + len(c.tag)
	}
	c.tag = tagOf(w.buf[after:])
	w.seal(tag)
}

// item writes what each item begins with, and its rest.
func (c *call) item(kind, id string, rest func()) {
	w := c.out
	w.comma()
	w.buf = append(w.buf, '{')
	w.str("kind", kind)
	tag := w.etag()
	if id != "" {
		w.str("id", id)
	}
	rest()
	w.buf = append(w.buf, '}')
	w.seal(tag)
}

func indent(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return b // the tests see to it that it is JSON
	}
	out.WriteByte('\n')
	return out.Bytes()
}
