package pages

import (
	"bytes"
	"embed"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/svg"
)

//go:embed page/*.html
var pages embed.FS

//go:embed static
var static embed.FS

// templates are parsed for the first page: other commands have a fast start. They call functions and no
// methods, so that the linker can leave out methods that nothing calls: a fifth of the program.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"chart": (*region).title, "course": (*forecastLine).says, "lack": (*forecast).lack, "moment": (*verdict.State).Moment, "spare": (*forecast).left,
		"sum": (*forecast).sum, "troubled": (*poolSection).troubled, "word": level.Word,
	}).ParseFS(pages, "page/*.html"))
})

// policy lets a page load its stylesheet, script and icon, and call this server. It
// forbids everything else. The icon of a page whose server is gone is data of the page.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// nav returns the pages of the navigation. To add a page, add a line here, and its route.
func (s *state) nav() []Entry {
	all := []Entry{{"Quota", "/"}, {"Regions", "/regions"}, {"Runs", "/runs"}, {"Search", "/search"}}
	if s.src.Fleet != nil {
		all = append(all, Entry{"Fleet", "/fleet"})
	}
	return all
}

// Entry is an entry of the navigation.
type Entry struct{ Name, Path string }

// Page is the data that every page has.
type Page struct {
	Title string
	Tab   sentence // for the tab of the browser
	Icon  level    // of the verdict, or empty
	Now   moment   // to the minute
	Live  bool     // whether the page updates itself
	Nav   []Entry
	At    string // the path of the entry that the page belongs to
	Facts *verdict.State
}

func (s *state) page(title, at string, live bool) Page {
	return Page{Title: title, Tab: say(title), Now: s.Clock(s.Now), Live: live, Nav: s.nav(), At: at, Facts: s.State}
}

// judged is page for one whose icon shows the verdict.
func (s *state) judged(title, at string) Page {
	p := s.page(title, at, true)
	p.Icon = s.Verdict().Level
	return p
}

// show renders a page and sends it, unless the client already has it.
func (b *Board) show(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	if status == http.StatusOK {
		kept.New(render(name, data)).Send(w, r)
		return
	}
	header, body := render(name, data)
	maps.Copy(w.Header(), header)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have hung up
}

// render returns the header and the body of a page. An error leaves no half-sent page.
func render(name string, data any) (http.Header, []byte) {
	var body bytes.Buffer
	if err := templates().ExecuteTemplate(&body, name+".html", data); err != nil {
		panic(err) // a template does not fit its data
	}
	return http.Header{"Content-Security-Policy": {policy}, "Content-Type": {"text/html; charset=utf-8"}, "Cache-Control": {"no-cache"}}, body.Bytes()
}

// kinds are the types of the files that pages load, by the ending of the name.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// assets are the files that pages load, by name. The stylesheet includes that of the charts. The icon has
// a variant for each level, and one for a page that is not up to date.
var assets = sync.OnceValue(func() map[string]*kept.Answer {
	all := map[string]*kept.Answer{}
	for name, body := range files() {
		all[name] = kept.Always(http.Header{"Content-Type": {kinds[path.Ext(name)]}, "Cache-Control": {"no-cache"}}, body)
	}
	return all
})

func files() map[string][]byte {
	all := map[string][]byte{}
	names, _ := fs.Glob(static, "static/*") // the pattern is a good one
	for _, name := range names {
		body, err := static.ReadFile(name)
		if err != nil {
			panic(err) // it is built in
		}
		all[path.Base(name)] = body
	}
	all["dashboard.css"] = append([]byte(svg.Stylesheet), all["dashboard.css"]...)
	return all
}

// Static serves a file that pages load: /static/{name}.
func (b *Board) Static(w http.ResponseWriter, r *http.Request) {
	a, ok := assets()[r.PathValue("name")]
	if !ok {
		b.Problem(w, r, http.StatusNotFound, "There is no such file")
		return
	}
	a.Send(w, r)
}

// table is a [view.Table] for the template of that name. The first cell of a row is its
// header.
type table struct {
	Caption string
	Hidden  bool // only screen readers get the caption
	Class   string
	Columns []heading
	Rows    [][]cell
}

type heading struct{ Name, Class string }

// cell is a cell of a table. Only the fields of its kind are set.
type cell struct {
	Of, Class string // the heading, which a phone shows beside the cell, and the class
	Text      string
	At        *moment
	Badge     level
	Note      string
	Link, ID  string      // where the text leads, and the id of the link
	Why       *whyAndWhen // of a [view.Reason]
}

// whyAndWhen is a reason, and when what was deferred resumes, if it did not yet.
type whyAndWhen struct {
	Why     string
	Resumes *moment
}

// link is a cell that leads somewhere; without an address it is text.
type link struct{ text, to, id, note string }

func (s *state) table(caption string, hidden bool, t view.Table) *table {
	shown := &table{Caption: caption, Hidden: hidden}
	shown.Rows = make([][]cell, len(t.Rows))
	for i, c := range t.Columns {
		if c.Terminal {
			continue
		}
		name, class := strings.ToUpper(c.Name[:1])+c.Name[1:], ""
		if c.Number {
			class = "n"
		}
		shown.Columns = append(shown.Columns, heading{name, class})
		if c.Spare {
			class += " spare"
		}
		for k, values := range t.Rows {
			one := s.cell(values[i])
			one.Of, one.Class = name, class+one.Class
			shown.Rows[k] = append(shown.Rows[k], one)
		}
	}
	return shown
}

func (s *state) cell(value any) cell {
	switch v := value.(type) {
	case string:
		return cell{Text: v}
	case int64:
		return cell{Text: view.Number(v)}
	case time.Duration:
		return cell{Text: span(v)}
	case time.Time:
		return cell{At: s.at(v)}
	case *moment:
		return cell{At: v}
	case noted:
		shown := s.cell(v.value)
		shown.Note = v.note
		return shown
	case link:
		return cell{Text: v.text, Link: v.to, ID: v.id, Note: v.note}
	case view.State:
		return cell{Text: v.Text, Badge: v.Level, Note: v.Note}
	case view.Reason:
		why := &whyAndWhen{Why: v.Why}
		if v.Until.After(s.Now) {
			why.Resumes = s.at(v.Until)
		}
		return cell{Why: why, Class: "long"}
	}
	return cell{}
}

// noted is a value with a note beside it.
type noted struct {
	value any
	note  string
}
