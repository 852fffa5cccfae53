package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
)

// field is a field of an object, and where its value goes.
type field struct {
	name string
	into any
}

// readObject decodes the body of a request strictly: one JSON object of these fields, each
// at most once, with the right type and spelling.
func readObject(r *http.Request, fields ...field) error {
	body, err := readJSON(r)
	if err != nil {
		return err
	}
	return readFields(body, fields)
}

// readJSON returns the body of a request, which must be JSON.
func readJSON(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, problem.BadRequest("the body is not UTF-8")
	}
	if json.Valid(body) {
		return body, nil
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(body, new(json.RawMessage)); errors.As(err, &syntax) {
		return nil, problem.BadRequest(place(body, syntax.Offset) + ": " + syntax.Error())
	}
	return nil, problem.BadRequest("the body is not JSON")
}

// readFields decodes an object, which must be valid JSON.
func readFields(object []byte, fields []field) error {
	at, err := members(object, func(name string, value []byte) error {
		for i := range fields {
			if fields[i].name == name {
				return readField(name, value, fields[i].into)
			}
		}
		var known []string
		for _, f := range fields {
			known = append(known, f.name)
		}
		slices.Sort(known)
		return fmt.Errorf("unknown field %.40q; the fields are %s", name, strings.Join(known, ", "))
	})
	if err != nil {
		return problem.BadRequest(place(object, at) + ": " + err.Error())
	}
	return nil
}

func readField(name string, value []byte, into any) error {
	if string(value) == "null" {
		return fmt.Errorf("%s is null; leave it out instead", name)
	}
	if s, is := into.(*string); is && plain(value) {
		*s = string(value[1 : len(value)-1])
		return nil
	}
	err := json.Unmarshal(value, into)
	if _, is := into.(**time.Time); is && err != nil {
		return fmt.Errorf("%s must be a time, as \"2026-11-22T08:00:00Z\"", name)
	}
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must be %s, not %s", name, kindOf(typed.Type), typed.Value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// kindOf names a type in the words of JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	}
	return "an object of whole numbers"
}

// members calls a function for each member of an object, which must be valid JSON. With an
// error it returns the offset of the end of the member's name.
func members(object []byte, member func(name string, value []byte) error) (int64, error) {
	at := skipSpace(object, 0)
	if object[at] != '{' {
		if object[at] != '[' {
			at = skipValue(object, at) - 1
		}
		return int64(at + 1), errors.New("it must be an object, such as {\"method\": \"videos.list\"}")
	}
	seen := map[string]bool{}
	for at = skipSpace(object, at+1); object[at] != '}'; {
		end := skipValue(object, at)
		var name string
		if err := readField("a name", object[at:end], &name); err != nil {
			return int64(end), err
		}
		if seen[name] {
			return int64(end), fmt.Errorf("%.40q is there twice", name)
		}
		seen[name] = true
		at = skipSpace(object, skipSpace(object, end)+1) // behind the colon
		value := object[at:skipValue(object, at)]
		if err := member(name, value); err != nil {
			return int64(end), err
		}
		if at = skipSpace(object, at+len(value)); object[at] == ',' {
			at = skipSpace(object, at+1)
		}
	}
	return 0, nil
}

// skipSpace returns the offset of the first character from at on that is no space.
func skipSpace(text []byte, at int) int {
	for at < len(text) && text[at] <= ' ' {
		at++
	}
	return at
}

// skipValue returns the end of the value at an offset of valid JSON.
func skipValue(text []byte, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			continue
		default: // a number or a word
			for at+1 < len(text) && strings.IndexByte(",]} \t\r\n", text[at+1]) < 0 {
				at++
			}
		}
		if depth == 0 {
			return at + 1
		}
	}
	return at
}

// plain reports whether a value is a text without escapes, which stands for itself.
func plain(value []byte) bool { return value[0] == '"' && bytes.IndexByte(value, '\\') < 0 }

// place returns the line and column of an offset, counted from 1.
func place(text []byte, offset int64) string {
	before := text[:min(max(offset-1, 0), int64(len(text)))]
	return fmt.Sprintf("line %d, column %d", 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
}

// unitsByPool is an object of whole numbers.
type unitsByPool map[string]int64

func (u *unitsByPool) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		return errors.New(`it must be an object of whole numbers, such as {"units": 5}`)
	}
	*u = unitsByPool{}
	_, err := members(text, func(name string, value []byte) error {
		var n int64
		if err := readField(name, value, &n); err != nil {
			return err
		}
		(*u)[name] = n
		return nil
	})
	return err
}

// settledUnits is the real cost of a call: a number, or an object with the units by pool.
type settledUnits struct {
	one *int64
	all unitsByPool
}

func (u *settledUnits) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("{")) {
		return u.all.UnmarshalJSON(text)
	}
	return json.Unmarshal(text, &u.one)
}

// byPool returns the units by pool. If they are a number, the token must name the pool.
func (u *settledUnits) byPool(pools []string) (quota.Units, error) {
	switch {
	case u.one == nil:
		return quota.Units(u.all), nil
	case len(pools) == 0:
		return nil, problem.BadInput(`the token does not name the pool that was charged; send the units as an object by pool, such as {"units": %d}`, *u.one)
	case len(pools) > 1:
		return nil, problem.BadInput("the call charged %s; send the units of each, such as {%q: 1, ...}", strings.Join(pools, " and "), pools[0])
	}
	return quota.Units{pools[0]: *u.one}, nil
}

// wanted is the body of a request to reserve. A nil pointer means an absent field.
type wanted struct {
	call         quota.Call
	pool, outage string
	charges      unitsByPool
	id           *string
	units        *int64
	wait         seconds
}

// readCall parses the object that describes a call to reserve, and how long it may wait.
func readCall(object []byte) (quota.Call, time.Duration, error) {
	var w wanted
	c := &w.call
	err := readFields(object, []field{
		{"upstream", &c.Upstream},
		{"account", &c.Account},
		{"method", &c.Method},
		{"pool", &w.pool},
		{"charges", &w.charges},
		{"family", &c.Family},
		{"key", &c.Key},
		{"units", &w.units},
		{"class", &c.Class},
		{"job", &c.Job},
		{"region", &c.Region},
		{"model", &c.Model},
		{"id", &w.id},
		{"outage", &w.outage},
		{"wait", &w.wait},
	})
	if err == nil {
		err = w.check()
	}
	if err != nil {
		return *c, 0, err
	}
	c.Charges, c.Outage = quota.Units(w.charges), quota.Policy(w.outage)
	if w.id != nil {
		c.ID = *w.id
	}
	units := int64(1)
	if w.units != nil {
		units = *w.units
	}
	switch {
	case w.pool != "":
		err = chargePool(c, w.pool, units)
	case c.Family != "":
		c.Units = units
	}
	return *c, time.Duration(w.wait), err
}

// check returns an error if fields contradict each other.
func (w *wanted) check() error {
	var named []string
	for _, way := range []struct {
		name  string
		there bool
	}{{"method", w.call.Method != ""}, {"pool", w.pool != ""}, {"charges", w.charges != nil}, {"family", w.call.Family != ""}} {
		if way.there {
			named = append(named, way.name)
		}
	}
	switch {
	case len(named) != 1:
		return problem.BadInput("send exactly one of method, pool, charges and family, not %s", cmp.Or(strings.Join(named, " and "), "none"))
	case w.units != nil && (named[0] == "method" || named[0] == "charges"):
		return problem.BadInput("units need a pool or a family; the price book has the price of a method")
	case w.units != nil && *w.units < 1:
		return problem.BadInput("units must be 1 or more, not %d", *w.units)
	case w.id != nil && *w.id == "":
		return problem.BadInput("id is empty; leave it out, or send 1 to 128 printable bytes")
	case w.id != nil && named[0] == "family":
		return problem.BadInput("a family keeps no receipts, so a call with the same id would be charged again; leave the id out")
	case time.Duration(w.wait) > longestWait:
		return problem.BadInput("wait must be at most %d seconds", longestWait/time.Second)
	}
	return nil
}

// chargePool makes a call charge one pool. The name may include the upstream and the
// account, as in a verdict.
func chargePool(c *quota.Call, name string, units int64) error {
	if strings.Contains(name, "/") {
		p, err := quota.ParsePool(name)
		if err != nil {
			return problem.BadInput("%v", err)
		}
		if c.Upstream != "" || c.Account != "" {
			return problem.BadInput("pool %.80q already names its upstream and account; leave those fields out", name)
		}
		c.Upstream, c.Account, name = p.Upstream, p.Account, p.Name
	}
	c.Charges = map[string]int64{name: units}
	return nil
}

type settlement struct {
	ID      string `json:"id"`
	Back    int64  `json:"back"`
	Left    int64  `json:"left"`
	Charged int64  `json:"charged"`
	Repeat  bool   `json:"repeat"` // it was settled before, with this result
}

func grantOf(granted *quota.Reservation) *problem.Verdict {
	v := problem.VerdictOf(&granted.Verdict)
	v.Charges = granted.Charges()
	if n, has := granted.Bill(); has {
		v.Bill = &n
	}
	v.Token = receipt(granted, v.Charges)
	return v
}
