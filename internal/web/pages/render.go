package pages

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/headroom-quota/headroom/internal/svg"
	"github.com/headroom-quota/headroom/internal/web/etag"
)

//go:embed page/*.html
var pages embed.FS

//go:embed static
var static embed.FS

var templates = template.Must(template.ParseFS(pages, "page/*.html"))

// policy lets a page load its own stylesheet, script and icon, ask this server, and
// nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Page is what every page has.
type Page struct {
	Title     string
	Now       moment // to the minute
	Live      bool   // it updates itself
	Searching bool   // it has a form of its own to search
}

func (s *state) page(title string, live bool) Page {
	return Page{Title: title, Now: s.clock(s.now), Live: live}
}

// show answers with a page. It is whole before the first byte of it leaves, and is not
// sent again to who has it.
func (b *Board) show(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name+".html", data); err != nil {
		panic(err) // a template of ours that does not fit its data
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
	_, _ = w.Write(body.Bytes()) // who asked may have gone
}

// asset is a file that pages load.
type asset struct {
	kind string
	body []byte
}

// assets are the files by name. The stylesheet has that of the pictures in it.
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

// Static answers with a file that pages load: /static/{name}.
func (b *Board) Static(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok {
		b.missing(w, r, "There is no such file")
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body) // who asked may have gone
}
