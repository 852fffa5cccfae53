package web_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// operation is a route as the document has it.
type operation struct {
	method, path string
	is           map[string]any
}

func (o operation) String() string { return o.method + " " + o.path }

// documented is the document that a server gives, and its operations.
func (r *rig) documented() (d document, all []operation) {
	r.Helper()
	var v map[string]any
	r.get("/api/v1/openapi.json", &v)
	d = v
	for _, path := range slices.Sorted(maps.Keys(d.at("paths"))) {
		for _, method := range slices.Sorted(maps.Keys(d.at("paths", path))) {
			all = append(all, operation{strings.ToUpper(method), path, d.at("paths", path, method)})
		}
	}
	return d, all
}

// parameters are those of an operation in the query, or in the path.
func (o operation) parameters(in string) (all []map[string]any) {
	list, _ := o.is["parameters"].([]any)
	for _, p := range list {
		if p := p.(map[string]any); p["in"] == in {
			all = append(all, p)
		}
	}
	return all
}

// url is an address of the operation with its examples, all of them or those that must
// be there. Parameters in with take the place of examples.
func (o operation) url(all bool, with map[string]string) string {
	example := func(p map[string]any) string {
		if v, ok := with[p["name"].(string)]; ok {
			return v
		}
		return fmt.Sprint(p["example"])
	}
	path := o.path
	for _, p := range o.parameters("path") {
		path = strings.ReplaceAll(path, "{"+p["name"].(string)+"}", url.PathEscape(example(p)))
	}
	query := url.Values{}
	for _, p := range o.parameters("query") {
		if all || p["required"] == true {
			query.Set(p["name"].(string), example(p))
		}
	}
	return path + "?" + query.Encode()
}

// answers fails if an answer is not as the document has it for its status.
func (r *rig) answers(d document, o operation, status int, a answer) {
	r.Helper()
	if a.StatusCode != status {
		r.Errorf("%s: %s, not %d: %s", o, a.Status, status, a.body)
		return
	}
	as, ok := o.is["responses"].(map[string]any)[fmt.Sprint(status)].(map[string]any)
	if !ok {
		r.Errorf("%s: %d is not in the document", o, status)
		return
	}
	as = d.resolved(as)
	headers, _ := as["headers"].(map[string]any)
	for name := range headers {
		if a.Header.Get(name) == "" {
			r.Errorf("%s, %d: it has no %s", o, status, name)
		}
	}
	content, _ := as["content"].(map[string]any)
	if content == nil {
		if a.body != "" {
			r.Errorf("%s, %d: it should be empty, and is %s", o, status, a.body)
		}
		return
	}
	media, ok := content[a.Header.Get("Content-Type")].(map[string]any)
	if !ok {
		r.Errorf("%s, %d: it is %s", o, status, a.Header.Get("Content-Type"))
		return
	}
	for _, fault := range d.check(media["schema"].(map[string]any), r.parsed(a.body), "answer") {
		r.Errorf("%s, %d: %s", o, status, fault)
	}
}

func TestOpenAPIHasEveryRoute(t *testing.T) {
	r := newRig(t, nil)
	var routes, operations []string
	for _, p := range r.server.Patterns() {
		if _, path, _ := strings.Cut(p, " "); strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/v1/") {
			routes = append(routes, p)
		}
	}
	_, all := r.documented()
	for _, o := range all {
		operations = append(operations, o.String())
	}
	slices.Sort(routes)
	slices.Sort(operations)
	if !slices.Equal(routes, operations) {
		t.Errorf("the table has\n  %s\nthe document\n  %s", strings.Join(routes, "\n  "), strings.Join(operations, "\n  "))
	}
}

// TestOpenAPIHasEveryParameter asks each route for a parameter that there is not: the
// answer names those that there are.
func TestOpenAPIHasEveryParameter(t *testing.T) {
	r := newRig(t, nil)
	d, all := r.documented()
	for _, o := range reading(all) {
		p := r.problem(http.StatusBadRequest, o.method, o.url(false, nil)+"&no_such_parameter=1", "")
		_, there, _ := strings.Cut(p.Detail, `"no_such_parameter" is not a parameter; `)
		var want []string
		for _, p := range o.parameters("query") {
			want = append(want, p["name"].(string))
			for _, fault := range d.check(p["schema"].(map[string]any), p["example"], "example") {
				t.Errorf("%s, %s: %s", o, p["name"], fault)
			}
		}
		says := "there are none"
		if len(want) > 0 {
			says = "the parameters are " + strings.Join(want, ", ")
		}
		if there != says {
			t.Errorf("%s says %q, the document has %v", o, there, want)
		}
	}
}

// reading are the operations that anybody may ask for, and that change nothing.
func reading(all []operation) []operation {
	return slices.DeleteFunc(slices.Clone(all), func(o operation) bool { return !strings.HasPrefix(o.path, "/api/") })
}

// TestOpenAPIAnswers holds real answers against the document: of every status that it
// has for a route.
func TestOpenAPIAnswers(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	r.Run("retention")
	var chart view.Chart
	r.get("/api/v1/trending?region=US", &chart)
	with := map[string]string{"id": chart.Entries[0].Video.ID, "q": "t"}
	none := map[string]string{"id": "none", "region": "ZZ", "job": "none", "q": "qqqqqqqq"}
	d, all := r.documented()

	limited := newLimitedRig(t, nil, "")
	limited.exhaust("/api/v1/regions")
	late := newRig(t, &web.Options{Timeouts: web.Timeouts{Query: time.Nanosecond}})
	for _, o := range reading(all) {
		a := r.ask(o.method, o.url(true, with), "")
		r.answers(d, o, http.StatusOK, a)
		r.answers(d, o, http.StatusOK, r.ask(o.method, o.url(false, with), ""))
		for status := range o.is["responses"].(map[string]any) {
			switch status {
			case "200", "default":
			case "304":
				r.answers(d, o, http.StatusNotModified, r.ask(o.method, o.url(true, with), "", "If-None-Match", "*"))
			case "400":
				r.answers(d, o, http.StatusBadRequest, r.ask(o.method, o.url(true, with)+"&none=1", ""))
			case "404":
				r.answers(d, o, http.StatusNotFound, r.ask(o.method, o.url(true, none), ""))
			case "429":
				r.answers(d, o, http.StatusTooManyRequests, limited.ask(o.method, o.url(true, with), ""))
			case "503":
				r.answers(d, o, http.StatusServiceUnavailable, late.ask(o.method, o.url(true, with), ""))
			default:
				t.Errorf("%s: the test does not know how to get a %s", o, status)
			}
		}
		if o.path == "/api/v1/quota" {
			down := func(context.Context) error { return errLost }
			r.Store.Before.Store(&down)
			r.answers(d, o, http.StatusServiceUnavailable, r.ask(o.method, o.path, ""))
			r.Store.Before.Store(nil)
		}
	}
}

// TestSchemasAreHeld pins that the test above can fail.
func TestSchemasAreHeld(t *testing.T) {
	r := newRig(t, nil)
	d, _ := r.documented()
	for body, want := range map[string]string{
		`{"title": "x", "status": 400}`:                              "",
		`{"title": "x"}`:                                             "status is missing",
		`{"title": "x", "status": 200}`:                              "200 is below 400",
		`{"title": 1, "status": 400}`:                                "1 is no string",
		`{"title": "x", "status": 400, "more": 1}`:                   "more is not described",
		`{"title": "x", "status": 400, "violated-policies": [1]}`:    "[0]: 1 is no string",
		`{"title": "x", "status": 400, "type": "not absolute at %"}`: "is no uri",
	} {
		faults := strings.Join(d.check(d.at("components", "schemas", "Problem"), r.parsed(body), "body"), "; ")
		if (want == "") != (faults == "") || !strings.Contains(faults, want) {
			t.Errorf("%s: %q", body, faults)
		}
	}
}
