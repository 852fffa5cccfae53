package pages

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

type action struct{ Name, Path string }

func linkTo(name string, set url.Values) action {
	return action{acts[name].title, "/act/" + name + "?" + set.Encode()}
}

func (s *state) actionsOf(u *quota.Usage) []action {
	if !s.acts {
		return nil
	}
	pool := url.Values{"pool": {u.Pool.String()}}
	all := []action{linkTo("adjust", pool), linkTo("block", pool)}
	if u.Blocked.After(u.Now) {
		all[1] = linkTo("unblock", pool)
	}
	return all
}

// limitsToSet returns the actions on the limits of clients, or nil if the ledger keeps none.
func (s *state) limitsToSet() (all []action) {
	if !s.limits {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Book.Families)) {
		if len(all) < mostLines {
			for _, do := range []string{"limit", "unlimit"} {
				a := linkTo(do, url.Values{"family": {name}})
				a.Name += acts[do].of + " " + name
				all = append(all, a)
			}
		}
	}
	return all
}

func (s *state) resets(r *catalog.RunRecord) (all []action) {
	if !s.acts {
		return nil
	}
	for _, w := range r.Work {
		if w.State != catalog.Done && len(all) < mostLines {
			a := linkTo("reset", url.Values{"job": {r.Job}, "work": {w.Work}})
			a.Name += " " + workName(w.Work)
			all = append(all, a)
		}
	}
	return all
}

// forms remembers the forms that were sent, so that none takes effect twice.
type forms struct {
	mu   sync.Mutex
	sent map[string]time.Time
}

const formLife = time.Hour

// once reports whether a form is sent for the first time, and is not too old.
func (f *forms) once(id string, now time.Time) bool {
	made, _, _ := strings.Cut(id, "-")
	at, err := strconv.ParseInt(made, 36, 64)
	age := now.Sub(time.Unix(at, 0))
	if err != nil || age < -time.Minute || age > formLife {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for old, at := range f.sent {
		if now.Sub(at) > 2*formLife {
			delete(f.sent, old)
		}
	}
	if _, again := f.sent[id]; again {
		return false
	}
	if f.sent == nil {
		f.sent = map[string]time.Time{}
	}
	f.sent[id] = now
	return true
}

func newForm(now time.Time) string { return strconv.FormatInt(now.Unix(), 36) + "-" + rand.Text() }

func says(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, quota.ErrBadInput):
		return strings.ToUpper(text[:1]) + text[1:]
	case errors.Is(err, quota.ErrNoLimits):
		return "This ledger's store keeps no limits that are set at run time"
	case errors.Is(err, quota.ErrOutage):
		return "The ledger cannot be reached. Nothing was done"
	}
	return "It failed; the server's log has the details"
}

// actPage is the data of the template act.html.
type actPage struct {
	Page
	Action  string
	Button  string
	Of      string
	Means   string
	Target  string
	Hidden  []input
	Inputs  []input
	Command string
	Form    string
	Problem string
}

// Form serves the form of an action: /act/{action}, with its target in the query.
func (b *Board) Form(w http.ResponseWriter, r *http.Request) {
	a := acts[r.PathValue("action")]
	switch {
	case !b.o.Operated():
		b.Problem(w, r, http.StatusNotFound, "There is no such page")
	case r.PathValue("action") == "done":
		b.done(w, r)
	case a == nil || a.target(r.URL.Query()) == "":
		b.Problem(w, r, http.StatusNotFound, "There is no such action")
	default:
		b.form(w, r, r.URL.Query(), http.StatusOK, "")
	}
}

func (b *Board) form(w http.ResponseWriter, r *http.Request, v url.Values, status int, problem string) {
	name := r.PathValue("action")
	a, s := acts[name], b.blank()
	for name := range v {
		v.Set(name, view.Plain(v.Get(name)))
	}
	for _, in := range a.inputs {
		if !v.Has(in.Name) && in.Value != "" {
			v.Set(in.Name, in.Value)
		}
	}
	target := view.Plain(a.target(v))
	p := &actPage{
		Page: s.page(a.title+a.of+" "+target, "/", false), Action: name, Button: a.title, Of: a.of, Means: a.means, Target: target,
		Form: newForm(s.Now), Problem: problem, Command: quoted(a.command(v)),
	}
	for _, set := range []string{"pool", "job", "work", "family"} {
		if v.Get(set) != "" {
			p.Hidden = append(p.Hidden, input{Name: set, Value: v.Get(set)})
		}
	}
	for _, in := range a.inputs {
		in.Value = v.Get(in.Name)
		p.Inputs = append(p.Inputs, in)
	}
	// Without it a browser would not say from which site the form is sent.
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store")
	b.show(w, r, status, "act", p)
}

// Act does what a form asks for, in the name of who. An empty name says that the token was
// wrong or does not have the right.
func (b *Board) Act(w http.ResponseWriter, r *http.Request, who string) {
	name := r.PathValue("action")
	a, v := acts[name], r.PostForm
	if a == nil || a.target(v) == "" {
		b.Problem(w, r, http.StatusNotFound, "There is no such action")
		return
	}
	for k := range v {
		v.Set(k, strings.TrimSpace(v.Get(k)))
	}
	wrong := func(problem string) { b.form(w, r, v, http.StatusUnprocessableEntity, problem) }
	switch needsReason := slices.Contains(a.inputs, reasonInput); {
	case who == "":
		b.form(w, r, v, http.StatusForbidden, "The token is wrong, or it does not have the right operate. Nothing was done")
		return
	case v.Get("confirm") != "yes":
		wrong("Confirm it first. Nothing was done")
		return
	case needsReason && v.Get("reason") == "":
		wrong("Write a reason. Nothing was done")
		return
	case !b.forms.once(v.Get("form"), b.o.Clock.Now()):
		wrong("This form was sent before, or it is too old. Check whether it was done before you send it again")
		return
	}
	src := b.sources()
	err := b.o.Facts.Within(r.Context(), func(ctx context.Context) error { return a.do(ctx, &src, v, who) })
	target, command := view.Plain(a.target(v)), view.Plain(quoted(a.command(v)))
	if err != nil {
		b.o.Log.Warn("an action of a person failed", "who", who, "action", name, "target", target, "error", err)
		wrong(says(err))
		return
	}
	b.o.Log.Info("a person acted", "who", who, "action", name, "target", target, "command", command)
	err = b.o.Facts.Within(context.WithoutCancel(r.Context()), func(ctx context.Context) error {
		return src.Catalog.Note(ctx, &catalog.Action{Who: who, What: name, Target: target, Detail: command})
	})
	if err != nil {
		b.o.Log.Error("note an action", "who", who, "action", name, "error", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/act/done", http.StatusSeeOther)
}

// donePage is the data of the template done.html.
type donePage struct {
	Page
	Did *table
}

// done shows what people did last, after an action.
func (b *Board) done(w http.ResponseWriter, r *http.Request) {
	s := b.blank()
	b.show(w, r, http.StatusOK, "done", &donePage{s.page("Done", "/", false), s.did(r.Context(), b)})
}
