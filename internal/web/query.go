package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/view"
)

// only refuses a query that cannot be read, or has parameters that the route does not
// take, or one of them twice: who mistypes a filter is not to get what it should have
// left out.
func only(r *http.Request, names []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return bad("the query cannot be read; write what is no letter or digit as %20")
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(names, name) && len(names) == 0:
			faults = append(faults, fmt.Sprintf("%.40q is no parameter; there are none", name))
		case !slices.Contains(names, name):
			faults = append(faults, fmt.Sprintf("%.40q is no parameter; there are %s", name, strings.Join(names, ", ")))
		case len(values[name]) > 1:
			faults = append(faults, name+" stands there more than once")
		}
		if len(faults) == mostFaults {
			break
		}
	}
	return faulty(faults)
}

// mostFaults is how many of a request are told of.
const mostFaults = 5

func faulty(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return bad(strings.Join(faults, "; "))
}

// query reads the parameters of a request. An empty one is as if it were not there.
// What is wrong is gathered, so that a client is told of all at once.
type query struct {
	values url.Values
	faults []string
}

func read(r *http.Request) *query { return &query{values: r.URL.Query()} }

// err is what was wrong with those that were read so far.
func (q *query) err() error { return faulty(q.faults) }

func (q *query) fault(format string, args ...any) {
	q.faults = append(q.faults, fmt.Sprintf(format, args...))
}

func (q *query) text(name string) string { return q.values.Get(name) }

// number is one from 1 to most, or missing if it is not there.
func (q *query) number(name string, most, missing int64) int64 {
	text := q.text(name)
	if text == "" {
		return missing
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		q.fault("%s is %.40q; write a number from 1 to %d", name, text, most)
	}
	return n
}

var aCategory = regexp.MustCompile(`^[0-9]{1,6}$`)

// region is one in upper case, as the catalog has them.
func (q *query) region() string {
	text := strings.ToUpper(q.text("region"))
	if text != "" && !ingest.IsRegion(text) {
		q.fault("region is %.40q; write its two letters, as US or DE", text)
	}
	return text
}

// category is the id of one; all together are 0, which the catalog has as none.
func (q *query) category() string {
	text := q.text("category")
	if text != "" && !aCategory.MatchString(text) {
		q.fault("category is %.40q; write the id of a video category, as 10, or 0 for all", text)
	}
	return ingest.Category(text)
}

// moment is a day, an instant, or how long ago it was.
func (q *query) moment(name string, now time.Time) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := view.ParseMoment(text, now)
	if err != nil {
		q.fault("%s: %s", name, err)
	}
	return t
}
