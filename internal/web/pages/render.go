package pages

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"
	"sync"

	"github.com/headroom-quota/headroom/internal/svg"
	"github.com/headroom-quota/headroom/internal/web/etag"
)

//go:embed page/*.html
var pages embed.FS

//go:embed static
var static embed.FS

// templates are parsed for the first page: other commands have a fast start.
var templates = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(pages, "page/*.html")) })

// policy lets a page load its stylesheet, script and icon, and call this server. It
// forbids everything else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Page is the data that every page has.
type Page struct {
	Title     string
	Now       moment // to the minute
	Live      bool   // whether the page updates itself
	Searching bool   // whether it has a search form of its own
}

func (s *state) page(title string, live bool) Page {
	return Page{Title: title, Now: s.clock(s.now), Live: live}
}

// show renders a page and sends it, unless the client already has it. An error while
// rendering leaves no half-sent page.
func (b *Board) show(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var body bytes.Buffer
	if err := templates().ExecuteTemplate(&body, name+".html", data); err != nil {
		panic(err) // a template does not fit its data
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	if status == http.StatusOK && etag.NotModified(w, r, body.Bytes()) {
		return
	}
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client may have hung up
}

// asset is a file that pages load.
type asset struct {
	kind string
	body []byte
}

// assets holds the files by name. The stylesheet includes that of the charts.
var assets = func() map[string]asset {
	all := map[string]asset{}
	for name, kind := range map[string]string{
		"dashboard.css": "text/css; charset=utf-8", "dashboard.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		body, err := fs.ReadFile(static, "static/"+name)
		if err != nil {
			panic(err) // it is built in
		}
		all[name] = asset{kind, body}
	}
	css := all["dashboard.css"]
	css.body = append([]byte(svg.Stylesheet), css.body...)
	all["dashboard.css"] = css
	return all
}()

// Static serves a file that pages load: /static/{name}.
func (b *Board) Static(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok {
		b.Problem(w, r, http.StatusNotFound, "There is no such file")
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache")
	if etag.NotModified(w, r, a.body) {
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body) // the client may have hung up
}
