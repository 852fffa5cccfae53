package youtubesim

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options are what New can be told; nil is legal.
type Options struct {
	// Seed decides all data. The same seed at the same time gives the same answers,
	// in any process.
	Seed uint64
	// Clock tells the time, of the data and of the quota; nil is the machine's.
	Clock func() time.Time
	// Generation decides prices and pools; zero is FourPools.
	Generation Generation
	// Quota is what each project has per Pacific day; what it does not say is as the
	// upstream's defaults.
	Quota Quota
	// Projects have quotas of their own; what they do not say is as in Quota.
	Projects map[string]Quota
	// Keys are the API keys that are known; nil knows any key, all of the project
	// "sandbox".
	Keys map[string]Key
	// Refusals are the shapes in which pools refuse; a pool that is not in it has that
	// of its generation.
	Refusals map[Pool]Refusal
	// Faults are there from the beginning; see [Sim.Inject].
	Faults []Fault
}

// Key is what an API key gives access to.
type Key struct {
	Project string // who is charged
	Blocked bool   // the key may not be used for this API
}

// Sim is the upstream. It is an http.Handler, safe for concurrent use.
type Sim struct {
	world      world
	clock      func() time.Time
	generation Generation
	keys       map[string]Key
	refusals   map[Pool]Refusal
	accounts   *accounts
	faults     faults
	buffers    sync.Pool
	last       lastChart
}

var _ http.Handler = (*Sim)(nil)

// New returns an upstream with nothing spent.
func New(o *Options) *Sim {
	if o == nil {
		o = &Options{}
	}
	s := &Sim{
		world: newWorld(o.Seed), clock: o.Clock, generation: o.Generation,
		keys: maps.Clone(o.Keys), refusals: maps.Clone(o.Refusals), accounts: newAccounts(o.Quota, o.Projects),
	}
	if s.clock == nil {
		s.clock = systemClock
	}
	s.faults.add(o.Faults)
	s.buffers.New = func() any { return new(writer) }
	return s
}

// Counts are what was charged and refused so far.
func (s *Sim) Counts() Counts { return s.accounts.all() }

// Inject makes things go wrong from now on, beside what does already.
func (s *Sim) Inject(f ...Fault) { s.faults.add(f) }

// Heal ends all faults.
func (s *Sim) Heal() { s.faults.clear() }

// ServeHTTP answers one call: whose it is, what it costs, what goes wrong, and
// what it says.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := s.clock()
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	query, err := url.ParseQuery(r.URL.RawQuery)
	pretty := query.Get("prettyPrint") != "false"
	m := methods[r.Method+" "+r.URL.Path]
	if m == nil {
		unmodelled(r).write(w, pretty)
		return
	}
	who, refusal := s.caller(r, query)
	who.method, who.now = m, now
	if refusal != "" {
		who.failure(refusal).write(w, pretty)
		return
	}
	instead, within := s.faults.of(r, m.name, query.Get("regionCode"), who.project)

	var units int64
	who.pool, units = s.generation.price(m)
	who.limit = s.accounts.limit(who.project, who.pool)
	free := instead != nil && (instead.Free || instead.Do == Refuse)
	if !free && !s.accounts.charge(now, who.project, who.pool, m.name, units) {
		who.failure(s.refusal(who.pool)).write(w, pretty)
		return
	}
	if instead != nil && instead.broken(w, r, who, pretty) {
		return
	}

	out := s.buffers.Get().(*writer)
	defer s.buffers.Put(out)
	out.buf = out.buf[:0]
	c := &call{sim: s, world: s.world, method: m, query: query, now: now.Unix(), within: within, out: out}
	if err != nil {
		failed(400, "global", "badRequest", "Bad Request").write(w, pretty)
		return
	}
	if f := c.answer(); f != nil {
		f.write(w, pretty)
		return
	}
	s.send(w, r, c, pretty, instead != nil && instead.Do == HalfBody)
}

// caller says whom a request's key belongs to, or how it is refused. Nothing that
// is told anyone contains the key.
func (s *Sim) caller(r *http.Request, query url.Values) (refused, Refusal) {
	key := r.Header.Get("X-Goog-Api-Key")
	if key == "" {
		key = query.Get("key")
	}
	if key == "" {
		return refused{project: "sandbox", world: s.world}, KeyMissing
	}
	known := Key{Project: "sandbox"}
	if s.keys != nil {
		var ok bool
		if known, ok = s.keys[key]; !ok {
			if s.generation == OnePool {
				return refused{world: s.world}, KeyInvalidOld
			}
			return refused{world: s.world}, KeyInvalid
		}
	}
	who := refused{project: known.Project, world: s.world}
	if known.Blocked {
		return who, KeyBlocked
	}
	return who, ""
}

func (s *Sim) refusal(p Pool) Refusal {
	if shape, ok := s.refusals[p]; ok {
		return shape
	}
	return s.generation.refusal(p)
}

// send sends an answer, unless the client has it already.
func (s *Sim) send(w http.ResponseWriter, r *http.Request, c *call, pretty, halfOnly bool) {
	tag := string(c.tag[:])
	h := w.Header()
	h.Set("Etag", `"`+tag+`"`)
	h.Set("Cache-Control", "private")
	h.Add("Vary", "Origin, X-Origin, Referer")
	if has(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := c.out.buf
	if pretty {
		body = indent(body)
	}
	h.Set("Content-Type", "application/json; charset=UTF-8")
	if halfOnly {
		half(w, body)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// has reports whether an If-None-Match names a tag, in quotes or not.
func has(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.Trim(strings.TrimPrefix(strings.TrimSpace(one), "W/"), `"`)
		if one == tag || one == "*" {
			return true
		}
	}
	return false
}

// unmodelled is the answer to what is not simulated. The real one may well have
// it, so this is loud, and costs nothing.
func unmodelled(r *http.Request) *failure {
	var names []string
	for _, m := range methods {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return failed(http.StatusNotImplemented, "youtubesim", "notSimulated", r.Method+" "+r.URL.Path+" is not simulated; simulated are "+join(slices.Compact(names)))
}
