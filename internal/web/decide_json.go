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

// readObject reads the body of a request strictly: one JSON object of these fields,
// each at most once, of its type, and spelt as it is.
func readObject(r *http.Request, fields map[string]any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if !utf8.Valid(body) {
		return bad("the body is not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return bad(place(body, syntax.Offset) + ": " + syntax.Error())
		}
		return bad(err.Error())
	}
	at, err := members(whole, func(name string, value json.RawMessage) error {
		into, there := fields[name]
		if !there {
			return fmt.Errorf("there is no field %.40q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		return readField(name, value, into)
	})
	if err != nil {
		return bad(place(body, at) + ": " + err.Error())
	}
	return nil
}

// readField reads the value of a field.
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

// kindOf names a type as people who write JSON do.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Int64:
		return "a whole number"
	}
	return "an object of whole numbers"
}

// members calls a function for each member of an object, in sound JSON. With an error
// it returns the offset at which the member ends.
func members(object json.RawMessage, member func(name string, value json.RawMessage) error) (int64, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return d.InputOffset(), errors.New("an object is wanted, as {\"method\": \"videos.list\"}")
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
			return at, fmt.Errorf("%.40q stands there twice", name)
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

// place is where in a text an offset is: line and column, from 1.
func place(text []byte, offset int64) string {
	before := text[:min(max(offset-1, 0), int64(len(text)))]
	return fmt.Sprintf("line %d, column %d", 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
}

// unitsByPool is an object of whole numbers.
type unitsByPool map[string]int64

// UnmarshalJSON implements [json.Unmarshaler].
func (u *unitsByPool) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		return errors.New(`it must be an object of whole numbers, as {"units": 5}`)
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

// settledUnits are what a call really cost: a number, or an object by pool.
type settledUnits struct {
	one *int64
	by  unitsByPool
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *settledUnits) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("{")) {
		return u.by.UnmarshalJSON(text)
	}
	return json.Unmarshal(text, &u.one)
}

// of are the units by pool. Of a number the token must say whose it is.
func (u *settledUnits) of(pools []string) (quota.Units, error) {
	switch {
	case u.one == nil:
		return quota.Units(u.by), nil
	case len(pools) == 0:
		return nil, wrong(`the token does not say which pool was charged; send the units as an object by pool, as {"units": %d}`, *u.one)
	case len(pools) > 1:
		return nil, wrong("the call charged %s; say the units of each, as {%q: 1, ...}", strings.Join(pools, " and "), pools[0])
	}
	return quota.Units{pools[0]: *u.one}, nil
}
