package pages

import (
	"cmp"
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
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
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
	if s.limits && u.Pool.IsMoney() {
		limit := url.Values{"family": {quota.LimitsOfUpstream + book.Budgets}, "key": {strings.TrimPrefix(u.Pool.String(), book.BudgetKey(""))}}
		all = append(all, linkTo("limit", limit), linkTo("unlimit", limit))
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
	maps.DeleteFunc(f.sent, func(_ string, at time.Time) bool { return now.Sub(at) > 2*formLife })
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
		Form: newForm(s.Now), Problem: problem, Command: a.command(v),
	}
	for _, set := range a.about {
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
	target, command := view.Plain(a.target(v)), view.Plain(a.command(v))
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

// act is an action of a person on a page. To add one, add it to acts; it needs no route.
type act struct {
	title  string
	of     string   // what joins the title and the target
	means  string   // what it does, in a sentence
	about  []string // the inputs that the link has set: they name the target
	inputs []input  // the others
	usage  string   // of the command that does the same: inputs are in capitals, and those in brackets may be missing
	do     func(ctx context.Context, src *view.Sources, v url.Values, who string) error
}

// target names what the action is about, or returns "".
func (a *act) target(v url.Values) string {
	var names []string
	for _, name := range a.about {
		names = append(names, v.Get(name))
	}
	return strings.TrimSpace(strings.Join(names, " "))
}

// optional matches a part of a usage that may be missing.
var optional = pattern.Of(`\[[^]]*\]`)

// command returns the command that does the same, as a shell reads it. A missing input keeps its
// name in capitals. So does a key, which may be a secret of the client.
func (a *act) command(v url.Values) string {
	usage := optional().ReplaceAllStringFunc(a.usage, func(part string) string {
		part = strings.Trim(part, "[]")
		if v.Get(strings.ToLower(part[strings.LastIndexByte(part, ' ')+1:])) == "" {
			return ""
		}
		return part
	})
	text := "ingestor"
	for word := range strings.FieldsSeq(usage) {
		if word == strings.ToUpper(word) && word != "KEY" {
			word = cmp.Or(v.Get(strings.ToLower(word)), word)
		}
		text += " " + shell.Quote(word)
	}
	return text
}

type input struct {
	Name, Label, Type, Hint, Value string
	Required                       bool
}

var (
	reasonInput = input{Name: "reason", Label: "Reason, for other people", Type: "text", Required: true}
	keyInput    = input{Name: "key", Label: "Client, by its key, or budget, such as team or user:alice", Type: "text", Required: true}
)

// acts are the actions, by the last part of their paths.
var acts = map[string]*act{
	"adjust": {
		title: "Adjust", means: "Adds units to the usage of the pool, or takes units off, for every program that shares the ledger",
		inputs: []input{{Name: "units", Label: "Units, such as 250 or -40, or of a budget -0.40 USD", Type: "text", Required: true}, reasonInput},
		about:  []string{"pool"},
		usage:  "quota adjust POOL UNITS --reason REASON",
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			pool, err := quota.ParsePool(v.Get("pool"))
			if err != nil {
				return err
			}
			units, err := view.ParseAmount(v.Get("pool"), v.Get("units"))
			if err != nil {
				return err
			}
			_, err = src.Ledger.Admin().Adjust(ctx, pool, units, v.Get("reason")+" (by "+who+")")
			return err
		},
	},
	"block": {
		title: "Block", means: "Stops every program that shares the ledger from using the pool, until the block ends",
		inputs: []input{{Name: "for", Label: "For", Type: "text", Hint: "Such as 2h. Empty blocks until the next reset.", Value: "2h"}, reasonInput},
		about:  []string{"pool"},
		usage:  "quota block POOL [--for FOR] --reason REASON",
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			pool, err := quota.ParsePool(v.Get("pool"))
			if err != nil {
				return err
			}
			reason := quota.ByHand(v.Get("reason") + " (by " + who + ")")
			if v.Get("for") == "" {
				return src.Ledger.BlockUntilReset(ctx, pool, reason)
			}
			d, err := view.ParseSpan(v.Get("for"))
			if err != nil {
				return quota.BadInput("%s", err)
			}
			return src.Ledger.BlockFor(ctx, pool, d, reason)
		},
	},
	"unblock": {
		title: "Unblock", means: "Lifts the block of the pool, for every program that shares the ledger",
		about: []string{"pool"},
		usage: "quota unblock POOL",
		do: func(ctx context.Context, src *view.Sources, v url.Values, _ string) error {
			pool, err := quota.ParsePool(v.Get("pool"))
			if err != nil {
				return err
			}
			return src.Ledger.Admin().Unblock(ctx, pool)
		},
	},
	"reset": {
		title: "Reset", means: "Forgets how far the work has got. Its next run starts from the beginning. Fetched data is kept",
		about: []string{"job", "work"},
		usage: "state reset JOB [WORK]",
		do:    reset,
	},
	"limit": {
		title: "Set a limit", of: " of", means: "Sets the limit of one client, in place of the price book's, for every program that shares the ledger. What the client has used stays used",
		inputs: []input{
			keyInput,
			{Name: "quota", Label: "Quota, such as 6000, or of a budget 25 USD", Type: "text", Required: true},
			{Name: "until", Label: "Until, such as 2027-01-01T08:00:00Z; empty if it does not end", Type: "text"},
			reasonInput,
		},
		about: []string{"family"},
		usage: "limits set FAMILY KEY QUOTA --reason REASON [--until UNTIL]",
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			units, err := view.ParseQuota(v.Get("family"), v.Get("quota"))
			switch {
			case err != nil:
				return err
			case units < 1:
				return quota.BadInput("the quota must be above 0")
			}
			var until time.Time
			if text := v.Get("until"); text != "" {
				if until, err = view.ParseEnd(text); err != nil {
					return err
				}
			}
			return setLimit(ctx, src, v, who, units, until)
		},
	},
	"unlimit": {
		title: "Remove a limit", of: " of", means: "Removes the limit of one client. Then the price book's holds again, for every program that shares the ledger",
		inputs: []input{keyInput, reasonInput},
		about:  []string{"family"},
		usage:  "limits rm FAMILY KEY --reason REASON",
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			return setLimit(ctx, src, v, who, 0, time.Time{})
		},
	},
}

// setLimit sets the limit of a client; 0 removes it. The ledger keeps the key, and who did it.
func setLimit(ctx context.Context, src *view.Sources, v url.Values, who string, units int64, until time.Time) error {
	_, err := src.Ledger.Admin().SetLimit(ctx, quota.KeyLimit{Family: v.Get("family"), Key: v.Get("key"), Quota: units, Until: until, By: who, Reason: v.Get("reason")})
	return err
}

// reset forgets how far a job has got, or one unit of its work.
func reset(ctx context.Context, src *view.Sources, v url.Values, _ string) error {
	job, work := v.Get("job"), v.Get("work")
	all, err := src.Catalog.Cursors(ctx, job)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(c catalog.Cursor) bool { return job == "" || work != "" && c.Work != work })
	if len(all) == 0 {
		return quota.BadInput("there is no such work")
	}
	for _, c := range all {
		if err := src.Catalog.Reset(ctx, job, c.Work); err != nil {
			return err
		}
	}
	return nil
}
