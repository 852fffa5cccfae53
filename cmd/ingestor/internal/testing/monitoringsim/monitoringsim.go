// Package monitoringsim is an upstream that behaves like Cloud Monitoring's list of time
// series, as its published schema describes it, and like the token server in front of it.
// It is for tests: they decide what was counted, and what comes late, twice or not at all.
package monitoringsim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	monitoring "google.golang.org/api/monitoring/v3"
)

// The types of series.
const (
	Usage   = "serviceruntime.googleapis.com/quota/rate/net_usage"
	Usage2  = "serviceruntime.googleapis.com/quota/ratev2/net_usage"
	Limit   = "serviceruntime.googleapis.com/quota/limit"
	Limit2  = "serviceruntime.googleapis.com/quota/ratev2/limit"
	service = "youtube.googleapis.com"
)

// Refusal is an answer that refuses all requests.
type Refusal struct {
	Status   int
	Code     string // as PERMISSION_DENIED
	Reason   string // of its ErrorInfo
	Consumer string // of its ErrorInfo
	Says     string
}

// Server is the upstream. It serves from its address until it is closed.
type Server struct {
	*httptest.Server
	Project string

	key    *serviceKey
	mu     sync.Mutex
	series []*monitoring.TimeSeries
	known  map[string]bool // types of series that the project has had
	refuse *Refusal
	token  func(w http.ResponseWriter, assertion string) bool
	lists  int
	page   int // points of a page
}

// New starts a server with the project "headroom-test", which knows all types of series and
// has no points.
func New() *Server {
	s := &Server{Project: "headroom-test", known: map[string]bool{Usage: true, Usage2: true, Limit: true, Limit2: true}, page: 1 << 20}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.giveToken)
	mux.HandleFunc("GET /v3/projects/{project}/timeSeries", s.list)
	s.Server = httptest.NewServer(mux)
	return s
}

// Set replaces all series.
func (s *Server) Set(series ...*monitoring.TimeSeries) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.series = series
}

// Pages makes pages of so many points.
func (s *Server) Pages(points int) { s.mu.Lock(); defer s.mu.Unlock(); s.page = points }

// Forget makes the project one that has never had series of a type.
func (s *Server) Forget(kind string) { s.mu.Lock(); defer s.mu.Unlock(); delete(s.known, kind) }

// Refuse makes the server refuse all requests; nil ends that.
func (s *Server) Refuse(r *Refusal) { s.mu.Lock(); defer s.mu.Unlock(); s.refuse = r }

// Lists is how many pages of series were asked for.
func (s *Server) Lists() int { s.mu.Lock(); defer s.mu.Unlock(); return s.lists }

// Series makes a series of a metric of YouTube's quota, as default or search_list.
// Usage is told by the minute, and Usage2 as a running total of the day that began at the
// label window_start_time. Labels come in pairs.
func Series(kind, metric string, labels ...string) *monitoring.TimeSeries {
	ts := &monitoring.TimeSeries{
		MetricKind: "GAUGE", ValueType: "INT64", Unit: "1",
		Metric:   &monitoring.Metric{Type: kind, Labels: map[string]string{}},
		Resource: &monitoring.MonitoredResource{Type: "consumer_quota", Labels: map[string]string{"project_id": "headroom-test", "location": "global", "service": service, "quota_metric": service + "/" + metric}},
	}
	if kind == Usage {
		ts.MetricKind = "DELTA"
	}
	if kind == Usage2 || kind == Limit2 {
		delete(ts.Resource.Labels, "quota_metric")
		ts.Metric.Labels["quota_metric"] = service + "/" + metric
		ts.Metric.Labels["window_size"] = "86400s"
	}
	for i := 0; i+1 < len(labels); i += 2 {
		ts.Metric.Labels[labels[i]] = labels[i+1]
	}
	return ts
}

// Add adds a point to a series: units of the minute that ends then, or a value as of then.
func Add(ts *monitoring.TimeSeries, end time.Time, value int64) *monitoring.TimeSeries {
	start := end
	if ts.MetricKind == "DELTA" {
		start = end.Add(-time.Minute)
	}
	return Between(ts, start, end, value)
}

// Between adds a point of an interval.
func Between(ts *monitoring.TimeSeries, start, end time.Time, value int64) *monitoring.TimeSeries {
	ts.Points = append(ts.Points, &monitoring.Point{
		Interval: &monitoring.TimeInterval{StartTime: start.UTC().Format(time.RFC3339Nano), EndTime: end.UTC().Format(time.RFC3339Nano)},
		Value:    &monitoring.TypedValue{Int64Value: &value},
	})
	return ts
}

var filterPart = regexp.MustCompile(`^([a-z_.]+) = "([^"]*)"$`)

// filter reads a filter. A list is of one type of series.
func filter(text string) (map[string]string, bool) {
	by := map[string]string{}
	for part := range strings.SplitSeq(text, " AND ") {
		m := filterPart.FindStringSubmatch(part)
		if m == nil {
			return nil, false
		}
		by[m[1]] = m[2]
	}
	return by, by["metric.type"] != ""
}

func (s *Server) list(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	q := req.URL.Query()
	by, ok := filter(q.Get("filter"))
	start, bad := time.Parse(time.RFC3339Nano, q.Get("interval.startTime"))
	end, worse := time.Parse(time.RFC3339Nano, q.Get("interval.endTime"))
	switch {
	case s.key != nil && req.Header.Get("Authorization") != "Bearer "+s.key.token:
		fail(w, &Refusal{Status: http.StatusUnauthorized, Code: "UNAUTHENTICATED", Reason: "ACCESS_TOKEN_TYPE_UNSUPPORTED", Says: "Request had invalid authentication credentials."})
		return
	case s.refuse != nil:
		fail(w, s.refuse)
		return
	case req.PathValue("project") != s.Project:
		fail(w, &Refusal{Status: http.StatusForbidden, Code: "PERMISSION_DENIED", Says: "Permission monitoring.timeSeries.list denied (or the resource may not exist)."})
		return
	case !ok:
		fail(w, &Refusal{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Says: "Field filter had an invalid value."})
		return
	case bad != nil || worse != nil || !start.Before(end):
		fail(w, &Refusal{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Says: "Field interval had an invalid value."})
		return
	case !s.known[by["metric.type"]]:
		fail(w, &Refusal{Status: http.StatusNotFound, Code: "NOT_FOUND", Says: "Cannot find metric(s) that match type = \"" + by["metric.type"] + "\"."})
		return
	}
	size := s.page
	if asked, err := strconv.Atoi(q.Get("pageSize")); err == nil && asked > 0 {
		size = min(size, asked)
	}
	skip, _ := strconv.Atoi(q.Get("pageToken"))
	answer := monitoring.ListTimeSeriesResponse{Unit: "1"}
	n := 0
	for _, ts := range s.series {
		if ts.Metric.Type != by["metric.type"] || ts.Resource.Labels["service"] != by["resource.labels.service"] {
			continue
		}
		part := *ts
		part.Points = nil
		for _, p := range newestFirst(ts.Points) {
			at, err := time.Parse(time.RFC3339Nano, p.Interval.EndTime)
			if err != nil || !at.After(start) || at.After(end) {
				continue
			}
			if n++; n > skip && n <= skip+size {
				part.Points = append(part.Points, p)
			}
		}
		if len(part.Points) > 0 {
			answer.TimeSeries = append(answer.TimeSeries, &part)
		}
	}
	if n > skip+size {
		answer.NextPageToken = strconv.Itoa(skip + size)
	}
	reply(w, http.StatusOK, &answer)
}

func newestFirst(points []*monitoring.Point) []*monitoring.Point {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b *monitoring.Point) int { return cmp.Compare(b.Interval.EndTime, a.Interval.EndTime) })
	return points
}

// fail answers as Google's APIs do.
func fail(w http.ResponseWriter, r *Refusal) {
	body := map[string]any{"code": r.Status, "message": r.Says, "status": r.Code}
	if r.Reason != "" {
		body["details"] = []any{map[string]any{
			"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": r.Reason, "domain": "googleapis.com",
			"metadata": map[string]string{"service": "monitoring.googleapis.com", "consumer": r.Consumer},
		}}
	}
	reply(w, r.Status, map[string]any{"error": body})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
