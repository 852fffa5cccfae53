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

// method is a simulated method.
type method struct {
	name    string // videos.list
	service string // its name in refusals
	kind    string // of its answer
	pool    Pool
	oldCost int64
	parts   map[string]part
	params  []string
	serve   func(*call) *failure
}

// part is a value of the part parameter: a bit in a call's parts, or a part that only the
// owner may read.
type part uint16

const owners part = 0

// methods are the simulated methods, by verb and path.
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

// videosInsert needs more than a key, so it always fails. It is here because it costs units
// even so.
var videosInsert = &method{
	name: "videos.insert", service: "V3DataVideoService.Insert", pool: VideoInsert, oldCost: 1600,
	parts:  map[string]part{"snippet": 1, "status": 1, "contentDetails": 1, "id": 1, "localizations": 1, "player": 1, "statistics": 1, "recordingDetails": 1, "topicDetails": 1},
	params: []string{"part", "autoLevels", "notifySubscribers", "onBehalfOfContentOwner", "onBehalfOfContentOwnerChannel", "stabilize"}, //nolint:misspell // the upstream spells it so
	serve:  func(*call) *failure { return loginRequired() },
}

// everyMethod are the parameters that each method takes.
var everyMethod = []string{"$.xgafv", "access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser", "uploadType", "upload_protocol", "$alt", "$prettyPrint"}

// call is a call that was charged.
type call struct {
	sim    *Sim
	world  world
	method *method
	query  url.Values
	now    int64
	parts  part
	within []Fault
	out    *writer
	tag    [16]byte // of the answer
}

// answer writes the answer to a call, or returns its failure.
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

// list parses a parameter that may be repeated and may hold commas.
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

// ids parses the id parameter, with at most 50 ids.
func (c *call) ids() ([]string, *failure) {
	ids := c.list("id")
	if len(ids) > 50 {
		return nil, invalidFilter("id")
	}
	return ids, nil
}

// maxResults parses maxResults, which is 5 by default.
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

// region parses regionCode.
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

// category parses videoCategoryId. It is -1 for all categories, and len(categories) for an
// empty one.
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

// moment parses a time, or returns otherwise.
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

// oneOf parses a parameter that has a fixed set of values.
func (c *call) oneOf(name string, values ...string) (string, *failure) {
	s := c.query.Get(name)
	if s == "" || slices.Contains(values, s) {
		return s, nil
	}
	return "", invalidParameter(name, "Invalid string value: '"+s+"'. Allowed values: ["+strings.Join(values, ", ")+"]")
}

// filters returns those of these names that the request has.
func (c *call) filters(names ...string) (given []string) {
	for _, n := range names {
		if c.query.Has(n) {
			given = append(given, n)
		}
	}
	return given
}

// page parses pageToken, or starts a walk at a time. The token must belong to a request for
// the same list. Parameters that change only the form of the answer may differ.
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

// about identifies the list of a walk.
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

// within returns the bounds of a page in a list, and the tokens of the pages beside it.
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

// envelope writes the object around the items of a list.
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

// item writes an item: the fields that all have, and the rest.
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
		return b // the tests check that it is valid JSON
	}
	out.WriteByte('\n')
	return out.Bytes()
}
