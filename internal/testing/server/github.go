package server

import (
	"crypto/sha256"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GitHubOptions say what GitHub enforces. A limit without a quota is the documented one.
type GitHubOptions struct {
	Clock   Clock         // nil is System
	Core    Limit         // calls: 5,000 an hour
	Search  Limit         // calls: 30 a minute
	Points  Limit         // secondary: 900 a minute; a GET is 1, other verbs are 5
	AtOnce  int           // secondary: 100
	Latency time.Duration // of each call
}

// GitHub is a part of GitHub's REST API: repositories, issues, search and the limits.
type GitHub struct {
	o     GitHubOptions
	clock Clock

	mu     sync.Mutex
	limits map[string]*counter // core, search
	points *counter
	counts GitHubCounts
}

// GitHubCounts is what a server did.
type GitHubCounts struct {
	Granted     int
	NotModified int            // of them
	Refused     map[string]int // by core, search, points, at_once
	InFlight    int
	Most        int              // in flight at once
	Charged     map[string]int64 // by core, search, points
}

// NewGitHub returns a server with nothing spent.
func NewGitHub(o GitHubOptions) *GitHub {
	if o.Clock == nil {
		o.Clock = System{}
	}
	documented := func(l *Limit, quota int64, per time.Duration) {
		if l.Quota == 0 {
			*l = Limit{Kind: Fixed, Quota: quota, Per: per, Lazy: true}
		}
	}
	documented(&o.Core, 5000, time.Hour)
	documented(&o.Search, 30, time.Minute)
	documented(&o.Points, 900, time.Minute)
	if o.AtOnce == 0 {
		o.AtOnce = 100
	}
	now := o.Clock.Now()
	return &GitHub{
		o: o, clock: o.Clock,
		limits: map[string]*counter{"core": newCounter(o.Core, now), "search": newCounter(o.Search, now)},
		points: newCounter(o.Points, now),
		counts: GitHubCounts{Refused: map[string]int{}},
	}
}

// Counts returns what the server did so far.
func (s *GitHub) Counts() GitHubCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Refused = map[string]int{}
	for name, n := range s.counts.Refused {
		c.Refused[name] = n
	}
	c.Charged = map[string]int64{"core": s.limits["core"].total, "search": s.limits["search"].total, "points": s.points.total}
	return c
}

// Take takes units of core or search directly, if they are left. See [Spender].
func (s *GitHub) Take(limit string, units int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.limits[limit].left(now) < units {
		return false
	}
	s.limits[limit].add(now, units)
	return true
}

// ServeHTTP implements [http.Handler].
func (s *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, body := answerOf(r)
	if resource == "rate_limit" {
		s.writeLimits(w)
		return
	}
	etag := fmt.Sprintf(`W/"%x"`, sha256.Sum256([]byte(r.URL.RequestURI())))
	same := r.Method == http.MethodGet && r.Header.Get("If-None-Match") == etag
	refusal := s.begin(w.Header(), r.Method, resource, same)
	if refusal != "" {
		s.refuse(w, refusal)
		return
	}
	defer s.end()
	if s.clock.Sleep(r.Context(), s.o.Latency) != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Etag", etag)
	switch {
	case same:
		w.WriteHeader(http.StatusNotModified)
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, body)
	default:
		fmt.Fprint(w, body)
	}
}

// answerOf returns the resource that counts a call, and the answer.
func answerOf(r *http.Request) (resource, body string) {
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v3"); {
	case path == "/rate_limit":
		return "rate_limit", ""
	case strings.HasPrefix(path, "/search/"):
		return "search", `{"total_count":1,"incomplete_results":false,"items":[{"id":1,"number":1,"title":"one"}]}`
	case strings.HasSuffix(path, "/issues") && r.Method == http.MethodGet:
		return "core", `[{"id":1,"number":1,"title":"one"}]`
	case strings.Contains(path, "/issues"):
		return "core", `{"id":1,"number":1,"title":"one"}`
	}
	return "core", `{"id":1,"name":"headroom","full_name":"headroom-quota/headroom"}`
}

// begin charges a call, or returns the name of the limit that it does not fit. An
// unmodified answer is free of the primary limit.
func (s *GitHub) begin(h http.Header, verb, resource string, same bool) (refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, l := s.clock.Now(), s.limits[resource]
	points := int64(5)
	if verb == http.MethodGet || verb == http.MethodHead || verb == http.MethodOptions {
		points = 1
	}
	switch {
	case s.counts.InFlight >= s.o.AtOnce:
		refusal = "at_once"
	case s.points.left(now) < points:
		refusal = "points"
	case !same && l.left(now) < 1:
		refusal = resource
	}
	if refusal == "" {
		s.counts.Granted++
		s.counts.InFlight++
		s.counts.Most = max(s.counts.Most, s.counts.InFlight)
		s.points.add(now, points)
		if same {
			s.counts.NotModified++
		} else {
			l.add(now, 1)
		}
	} else {
		s.counts.Refused[refusal]++
	}
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set("X-Ratelimit-Resource", resource)
	h.Set("X-Ratelimit-Limit", strconv.FormatInt(l.most(), 10))
	h.Set("X-Ratelimit-Remaining", strconv.FormatInt(l.left(now), 10))
	h.Set("X-Ratelimit-Used", strconv.FormatInt(l.used(now), 10))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(resetSecond(l, now), 10))
	if refusal == "points" || refusal == "at_once" {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(max(s.points.wait(now, points), time.Second).Seconds()))))
	}
	return refusal
}

// resetSecond is when a limit is whole again, in seconds since 1970, rounded up.
func resetSecond(l *counter, now time.Time) int64 {
	reset := now.Add(l.Per)
	if l.used(now) > 0 {
		reset = now.Add(l.full(now))
	}
	return int64(math.Ceil(float64(reset.UnixMicro()) / 1e6))
}

func (s *GitHub) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.InFlight--
}

// refuse writes the documented refusals.
func (s *GitHub) refuse(w http.ResponseWriter, limit string) {
	message, page := "API rate limit exceeded for user ID 1.", "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"
	if limit == "points" || limit == "at_once" {
		message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
		page += "#about-secondary-rate-limits"
	}
	writeJSON(w, http.StatusForbidden, map[string]string{"message": message, "documentation_url": page})
}

// writeLimits answers GET /rate_limit, which is free.
func (s *GitHub) writeLimits(w http.ResponseWriter) {
	s.mu.Lock()
	now, all := s.clock.Now(), map[string]any{}
	for name, l := range s.limits {
		all[name] = map[string]int64{"limit": l.most(), "remaining": l.left(now), "used": l.used(now), "reset": resetSecond(l, now)}
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{"resources": all, "rate": all["core"]})
}
