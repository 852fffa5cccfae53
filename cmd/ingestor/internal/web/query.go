package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/pattern"
)

// checkQuery returns a problem for a malformed query, an unknown parameter, or one that is
// there twice: a misspelt filter must not be ignored.
func checkQuery(r *http.Request, names []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.BadRequest("the query cannot be read; escape other characters than letters and digits, such as %20 for a space")
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(names, name) && len(names) == 0:
			faults = append(faults, fmt.Sprintf("%.40q is not a parameter; there are none", name))
		case !slices.Contains(names, name):
			faults = append(faults, fmt.Sprintf("%.40q is not a parameter; the parameters are %s", name, strings.Join(names, ", ")))
		case len(values[name]) > 1:
			faults = append(faults, name+" is there more than once")
		}
		if len(faults) == maxFaults {
			break
		}
	}
	return faulty(faults)
}

// maxFaults is how many faults of a request an answer lists.
const maxFaults = 5

// faulty returns a problem that lists faults, or nil if there are none.
func faulty(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return problem.BadRequest(strings.Join(faults, "; "))
}

// query parses the parameters of a request. An empty parameter counts as missing. Faults
// are collected, so that a client learns of all at once.
type query struct {
	values url.Values
	faults []string
	moves  bool // a parameter means another time each moment, such as 7d
}

func read(r *http.Request) *query { return &query{values: r.URL.Query()} }

// err returns the faults of the parameters that were read so far.
func (q *query) err() error { return faulty(q.faults) }

func (q *query) fault(format string, args ...any) {
	q.faults = append(q.faults, fmt.Sprintf(format, args...))
}

func (q *query) text(name string) string { return q.values.Get(name) }

// number returns a number from 1 to limit, or missing if the parameter is missing.
func (q *query) number(name string, limit, missing int64) int64 {
	text := q.text(name)
	if text == "" {
		return missing
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > limit {
		q.fault("%s is %.40q; send a number from 1 to %d", name, text, limit)
	}
	return n
}

var categoryPattern = pattern.Of(`^[0-9]{1,6}$`)

// region returns a region in upper case, as the catalog has it.
func (q *query) region() string {
	text := strings.ToUpper(q.text("region"))
	if text != "" && !ingest.IsRegion(text) {
		q.fault("region is %.40q; send its two letters, such as US or DE", text)
	}
	return text
}

// category returns the id of a category, or "" for all (0).
func (q *query) category() string {
	text := q.text("category")
	if text != "" && !categoryPattern().MatchString(text) {
		q.fault("category is %.40q; send the id of a video category, such as 10, or 0 for all", text)
	}
	return ingest.Category(text)
}

// moment parses a day, a time, or how long ago a time was.
func (q *query) moment(name string, now time.Time) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := view.ParseMoment(text, now)
	if err != nil {
		q.fault("%s: %s", name, err)
	}
	_, err = view.ParseSpan(text)
	q.moves = err == nil
	return t
}
