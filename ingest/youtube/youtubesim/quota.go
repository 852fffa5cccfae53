package youtubesim

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pool is a quota of a project, by the upstream's name of its metric.
type Pool string

// The pools. Before 2026-06 only the first existed.
const (
	Default            Pool = "default"
	SearchList         Pool = "search_list"
	VideoInsert        Pool = "video_insert"
	VideoBatchGetStats Pool = "video_batch_get_stats"
)

// Quota is a project's units per Pacific day. Missing pools have the upstream's default:
// 100 for search_list and video_insert, 10,000 for others.
type Quota map[Pool]int64

var defaultQuota = Quota{Default: 10_000, SearchList: 100, VideoInsert: 100, VideoBatchGetStats: 10_000}

// Generation selects the prices and pools of a time.
type Generation int

const (
	// FourPools is the generation since 2026-06-01: searches, uploads and batchGetStats
	// have pools of their own, and cost 1 unit.
	FourPools Generation = iota
	// OnePool is the generation before: a search costs 100 and an upload 1,600 units of the
	// only pool.
	OnePool
)

// price returns the units and the pool of a call.
func (g Generation) price(m *method) (Pool, int64) {
	if g == OnePool {
		return Default, m.oldCost
	}
	return m.pool, 1
}

// Count is the cost of one method for a project in a pool on a Pacific day.
type Count struct {
	Day     string `json:"day"` // 2026-11-01
	Project string `json:"-"`
	Pool    Pool   `json:"pool"`
	Method  string `json:"method"`  // videos.list
	Calls   int64  `json:"calls"`   // charged calls, with invalid ones
	Units   int64  `json:"units"`   // cost of these calls
	Refused int64  `json:"refused"` // calls refused for quota, which cost nothing
	Failed  int64  `json:"failed"`  // calls that a [Fault] broke or refused, also charged ones
	BadKey  int64  `json:"bad_key"` // calls with a bad key or none, which cost nothing
}

// Counts is a list of counts, sorted by day, project, pool and method.
type Counts []Count

// Where returns the counts with the same day, project, pool and method. Empty fields of like
// match everything.
func (c Counts) Where(like Count) Counts {
	return slices.DeleteFunc(slices.Clone(c), func(n Count) bool {
		return like.Day != "" && like.Day != n.Day || like.Project != "" && like.Project != n.Project ||
			like.Pool != "" && like.Pool != n.Pool || like.Method != "" && like.Method != n.Method
	})
}

// Total returns the sum. Its fields that differ between the counts are empty.
func (c Counts) Total() Count {
	var t Count
	for i, n := range c {
		if i == 0 {
			t = Count{Day: n.Day, Project: n.Project, Pool: n.Pool, Method: n.Method}
		}
		if t.Day != n.Day {
			t.Day = ""
		}
		if t.Project != n.Project {
			t.Project = ""
		}
		if t.Pool != n.Pool {
			t.Pool = ""
		}
		if t.Method != n.Method {
			t.Method = ""
		}
		t.Calls += n.Calls
		t.Units += n.Units
		t.Refused += n.Refused
		t.Failed += n.Failed
		t.BadKey += n.BadKey
	}
	return t
}

// accounts holds the quotas of all projects and their use.
type accounts struct {
	limits map[string]Quota // by project; "" is for all others

	mu           sync.Mutex
	day          string
	begins, ends time.Time
	used         map[usedKey]int64 // today
	counts       map[countKey]*Count
}

type usedKey struct {
	day, project string
	pool         Pool
}

type countKey struct {
	usedKey
	method string
}

func newAccounts(all Quota, projects map[string]Quota) *accounts {
	a := &accounts{limits: map[string]Quota{}, used: map[usedKey]int64{}, counts: map[countKey]*Count{}}
	for project, own := range projects {
		a.limits[project] = fill(fill(own, all), defaultQuota)
	}
	a.limits[""] = fill(all, defaultQuota)
	return a
}

// fill adds the default quotas.
func fill(q, from Quota) Quota {
	full := maps.Clone(from)
	if full == nil {
		full = Quota{}
	}
	maps.Copy(full, q)
	return full
}

func (a *accounts) limit(project string, pool Pool) int64 {
	if q, ok := a.limits[project]; ok {
		return q[pool]
	}
	return a.limits[""][pool]
}

// charge takes the units of a call, or counts a refusal.
func (a *accounts) charge(now time.Time, project string, pool Pool, method string, units int64) (granted bool) {
	a.count(now, project, pool, method, func(c *Count) {
		used := usedKey{a.day, project, pool}
		if granted = a.used[used]+units <= a.limit(project, pool); !granted {
			c.Refused++
			return
		}
		a.used[used] += units
		c.Calls++
		c.Units += units
	})
	return granted
}

// count changes the count of a method today.
func (a *accounts) count(now time.Time, project string, pool Pool, method string, change func(*Count)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.begins) || !now.Before(a.ends) {
		a.day, a.begins, a.ends = dayOf(now)
	}
	key := countKey{usedKey{a.day, project, pool}, method}
	count := a.counts[key]
	if count == nil {
		count = &Count{Day: a.day, Project: project, Pool: pool, Method: method}
		a.counts[key] = count
	}
	change(count)
}

func (a *accounts) all() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := make(Counts, 0, len(a.counts))
	for _, c := range a.counts {
		counts = append(counts, *c)
	}
	slices.SortFunc(counts, func(x, y Count) int {
		for _, c := range [...]int{
			strings.Compare(x.Day, y.Day), strings.Compare(x.Project, y.Project),
			strings.Compare(string(x.Pool), string(y.Pool)),
		} {
			if c != 0 {
				return c
			}
		}
		return strings.Compare(x.Method, y.Method)
	})
	return counts
}
