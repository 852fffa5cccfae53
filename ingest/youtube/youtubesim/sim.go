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

// Options are the settings of [New]; nil is legal.
type Options struct {
	// Seed determines all data. The same seed at the same time gives the same answers in
	// any process.
	Seed uint64
	// Clock is the clock of the data and the quota; nil is the machine's.
	Clock func() time.Time
	// Generation selects prices and pools; zero is FourPools.
	Generation Generation
	// Quota is each project's quota per Pacific day. Missing pools have the upstream's
	// defaults.
	Quota Quota
	// Projects holds quotas of single projects. Missing pools are as in Quota.
	Projects map[string]Quota
	// Keys are the valid API keys. Nil accepts any key, for the project "sandbox".
	Keys map[string]Key
	// Refusals are the shapes of refusals by pool. Missing pools have that of their
	// generation.
	Refusals map[Pool]Refusal
	// Faults are active from the start; see [Sim.Inject].
	Faults []Fault
}

// Key says what an API key gives access to.
type Key struct {
	Project string // that pays
	Blocked bool   // the key may not be used for this API
}

// Sim is the simulated upstream, an http.Handler. It is safe for concurrent use.
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

// New returns an upstream without any spend.
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

// Counts returns the charged, refused and broken calls so far.
func (s *Sim) Counts() Counts { return s.accounts.all() }

// Inject adds faults to the active ones.
func (s *Sim) Inject(f ...Fault) { s.faults.add(f) }

// Heal removes all faults.
func (s *Sim) Heal() { s.faults.clear() }

// ServeHTTP implements [http.Handler]. It finds the project, charges the call, applies faults
// and answers.
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
	var units int64
	who.pool, units = s.generation.price(m)
	if refusal != "" {
		s.accounts.count(now, who.project, who.pool, m.name, func(c *Count) { c.BadKey++ })
		who.failure(refusal).write(w, pretty)
		return
	}
	instead, within := s.faults.matching(r, m.name, query.Get("regionCode"), who.project)

	who.limit = s.accounts.limit(who.project, who.pool)
	free := instead != nil && (instead.Free || instead.Do == Refuse)
	if !free && !s.accounts.charge(now, who.project, who.pool, m.name, units) {
		who.failure(s.refusal(who.pool)).write(w, pretty)
		return
	}
	if instead.breaks() {
		s.accounts.count(now, who.project, who.pool, m.name, func(c *Count) { c.Failed++ })
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

// caller returns the project of a request's key, or the refusal. Neither contains the key.
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
	if hasTag(r.Header.Get("If-None-Match"), tag) {
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

// hasTag reports whether an If-None-Match names a tag, in quotes or not.
func hasTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.Trim(strings.TrimPrefix(strings.TrimSpace(one), "W/"), `"`)
		if one == tag || one == "*" {
			return true
		}
	}
	return false
}

// unmodelled answers requests that are not simulated. The real API may support them, so the
// error says so clearly. It costs nothing.
func unmodelled(r *http.Request) *failure {
	var names []string
	for _, m := range methods {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return failed(http.StatusNotImplemented, "youtubesim", "notSimulated", r.Method+" "+r.URL.Path+" is not simulated; simulated are "+join(slices.Compact(names)))
}
