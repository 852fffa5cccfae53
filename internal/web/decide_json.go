package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/quota"
)

// readObject decodes the body of a request strictly: one JSON object of these fields, each
// at most once, with the right type and spelling.
func readObject(r *http.Request, fields map[string]any) error {
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
		return nil, badRequest("the body is not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, badRequest(place(body, syntax.Offset) + ": " + syntax.Error())
		}
		return nil, badRequest(err.Error())
	}
	return body, nil
}

// readFields decodes an object, which must be valid JSON.
func readFields(object []byte, fields map[string]any) error {
	at, err := members(object, func(name string, value json.RawMessage) error {
		into, there := fields[name]
		if !there {
			return fmt.Errorf("unknown field %.40q; the fields are %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		return readField(name, value, into)
	})
	if err != nil {
		return badRequest(place(object, at) + ": " + err.Error())
	}
	return nil
}

// readField decodes the value of a field.
func readField(name string, value json.RawMessage, into any) error {
	if string(value) == "null" {
		return fmt.Errorf("%s is null; leave it out instead", name)
	}
	err := json.Unmarshal(value, into)
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
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
	}
	return "an object of whole numbers"
}

// members calls a function for each member of an object, which must be valid JSON. With an
// error it returns the offset of the end of the member's name.
func members(object json.RawMessage, member func(name string, value json.RawMessage) error) (int64, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return d.InputOffset(), errors.New("it must be an object, such as {\"method\": \"videos.list\"}")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return d.InputOffset(), err
		}
		name, _ := token.(string)
		at := d.InputOffset()
		if seen[name] {
			return at, fmt.Errorf("%.40q is there twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return at, err
		}
		if err := member(name, value); err != nil {
			return at, err
		}
	}
	return 0, nil
}

// place returns the line and column of an offset, counted from 1.
func place(text []byte, offset int64) string {
	before := text[:min(max(offset-1, 0), int64(len(text)))]
	return fmt.Sprintf("line %d, column %d", 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
}

// unitsByPool is an object of whole numbers.
type unitsByPool map[string]int64

// UnmarshalJSON implements [json.Unmarshaler].
func (u *unitsByPool) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		return errors.New(`it must be an object of whole numbers, such as {"units": 5}`)
	}
	*u = unitsByPool{}
	_, err := members(text, func(name string, value json.RawMessage) error {
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

// UnmarshalJSON implements [json.Unmarshaler].
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
		return nil, badInput(`the token does not name the pool that was charged; send the units as an object by pool, such as {"units": %d}`, *u.one)
	case len(pools) > 1:
		return nil, badInput("the call charged %s; send the units of each, such as {%q: 1, ...}", strings.Join(pools, " and "), pools[0])
	}
	return quota.Units{pools[0]: *u.one}, nil
}
