// Package googlecount reads how many units of an API's quota a Google project has used,
// as Google itself counts them, and the limits that it grants. Cloud Monitoring has both.
// They come minutes late, and not for an API key: a service account or a person reads them.
package googlecount

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	monitoring "google.golang.org/api/monitoring/v3"
	"google.golang.org/api/option"
)

// Options are the options of [Open].
type Options struct {
	// Project is the project whose units are counted. Empty is that of the credentials.
	Project string
	// Credentials is the file of a service account, or of a person who has logged in. Empty
	// means the default credentials of the environment.
	Credentials string
	// Endpoint is another address than Google's, for a proxy. It may be empty.
	Endpoint string
	// Service is the API whose quota is meant, as youtube.googleapis.com.
	Service string
}

// Reader reads the counts of a project. It is safe for concurrent use.
type Reader struct {
	project, service string
	account          string // who reads, as in a role's binding; may be empty
	file             string
	credentials      *auth.Credentials
	api              *monitoring.Service
}

// Count is Google's own count of one metric.
type Count struct {
	Metric string // as youtube.googleapis.com/default
	// Units are those that were used from the beginning of the day until Until. Without a
	// point of today, Until is zero, and nothing is known.
	Units int64
	Until time.Time
	// Limit is how many units a day may have, if Limited.
	Limit   int64
	Limited bool
}

// The series of usage, and those of limits. The second of each is the newer one. Projects
// have the one or the other, or both.
var (
	usageSeries = []string{"serviceruntime.googleapis.com/quota/rate/net_usage", "serviceruntime.googleapis.com/quota/ratev2/net_usage"}
	limitSeries = []string{"serviceruntime.googleapis.com/quota/limit", "serviceruntime.googleapis.com/quota/ratev2/limit"}
)

// limitAge is how far back limits are looked for: they are told rarely.
const limitAge = 50 * time.Hour

// credentialFile is what is read of the credentials: nothing secret.
type credentialFile struct {
	Type    string `json:"type"`
	Project string `json:"project_id"`
	Quota   string `json:"quota_project_id"`
	Email   string `json:"client_email"`
}

var kinds = []string{"service_account", "authorized_user", "external_account", "impersonated_service_account"}

// Open prepares a reader. It does not ask Google anything yet, except that default
// credentials of a machine of Google's are looked for.
func Open(ctx context.Context, o *Options) (*Reader, error) {
	r := &Reader{project: o.Project, service: o.Service, file: o.Credentials}
	with := []option.ClientOption{option.WithTelemetryDisabled()}
	find := &credentials.DetectOptions{Scopes: []string{monitoring.MonitoringReadScope}}
	if o.Endpoint != "" {
		if err := checkEndpoint(o.Endpoint); err != nil {
			return nil, err
		}
		with = append(with, option.WithEndpoint(strings.TrimSuffix(o.Endpoint, "/")+"/"))
	}
	detect := func() (*auth.Credentials, error) { return credentials.DetectDefault(find) }
	if path := o.Credentials; path != "" {
		text, about, err := readCredentials(path)
		if err != nil {
			return nil, err
		}
		detect = func() (*auth.Credentials, error) {
			return credentials.NewCredentialsFromJSON(credentials.CredType(about.Type), text, find)
		}
		r.project = cmp.Or(r.project, about.Project)
		if about.Email != "" {
			r.account = "serviceAccount:" + about.Email
		}
	}
	if r.project == "" {
		return nil, &Error{Kind: Misconfigured, Says: "the Google project is not named, and the credentials name none", Remedy: "Set google_project to the project of the API key, as my-project-1234"}
	}
	if !isProject(r.project) {
		return nil, &Error{Kind: Misconfigured, Says: fmt.Sprintf("%.40q is not the id of a Google project", r.project), Remedy: "Set google_project to the project of the API key, as my-project-1234"}
	}
	var err error
	if r.credentials, err = detect(); err != nil { // it may quote them
		return nil, r.unusable()
	}
	if r.api, err = monitoring.NewService(ctx, append(with, option.WithAuthCredentials(r.credentials))...); err != nil {
		return nil, r.unusable()
	}
	r.api.UserAgent = "headroom-ingestor"
	return r, nil
}

// readCredentials reads a file of credentials. No error shows what is in it.
func readCredentials(path string) (text []byte, about credentialFile, err error) {
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, about, &Error{Kind: Misconfigured, Says: fmt.Sprintf("google_credentials: %v", err), Remedy: "Name the file of a service account's key"}
	}
	if json.Unmarshal(text, &about) != nil || !slices.Contains(kinds, about.Type) {
		return nil, about, &Error{Kind: Misconfigured, Says: fmt.Sprintf("google_credentials: %s is not a file of Google credentials", path), Remedy: "Name the file of a service account's key, or the one that gcloud auth application-default login wrote. An API key cannot read the count"}
	}
	return text, about, nil
}

// Project is the project whose units are counted.
func (r *Reader) Project() string { return r.project }

// Read returns the counts of all metrics since a day began, sorted by metric.
func (r *Reader) Read(ctx context.Context, since, now time.Time) ([]Count, error) {
	if _, err := r.credentials.Token(ctx); err != nil {
		return nil, r.noToken(ctx, err)
	}
	found := map[string]*Count{}
	count := func(metric string) *Count {
		if found[metric] == nil {
			found[metric] = &Count{Metric: metric}
		}
		return found[metric]
	}
	for _, series := range usageSeries {
		all, err := r.list(ctx, series, since, now)
		if err != nil {
			return nil, err
		}
		for metric, t := range usages(all, since) {
			c := count(metric)
			t = t.larger(tally{c.Units, c.Until})
			c.Units, c.Until = t.units, t.until
		}
	}
	told := map[string]time.Time{}
	for _, series := range limitSeries {
		all, err := r.list(ctx, series, now.Add(-limitAge), now)
		if err != nil {
			return nil, err
		}
		for metric, t := range limits(all) {
			if c := count(metric); t.until.After(told[metric]) {
				c.Limit, c.Limited, told[metric] = max(t.units, 0), t.units >= 0, t.until
			}
		}
	}
	if len(found) == 0 {
		return nil, &Error{
			Kind: Misconfigured, Says: fmt.Sprintf("Cloud Monitoring knows no quota of %s in the project %s", r.service, r.project),
			Remedy: "Set google_project to the project of the API key. If the API was used there for the first time, wait some minutes",
		}
	}
	all := make([]Count, 0, len(found))
	for _, c := range found {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Count) int { return strings.Compare(a.Metric, b.Metric) })
	return all, nil
}

// list reads the series of one type, from all pages. A type that the project does not know
// has none.
func (r *Reader) list(ctx context.Context, series string, from, to time.Time) (all []*monitoring.TimeSeries, err error) {
	const page = 10_000 // points
	err = r.api.Projects.TimeSeries.List("projects/"+r.project).
		Filter(fmt.Sprintf(`metric.type = %q AND resource.type = "consumer_quota" AND resource.labels.service = %q`, series, r.service)).
		IntervalStartTime(from.UTC().Format(time.RFC3339Nano)).IntervalEndTime(to.UTC().Format(time.RFC3339Nano)).
		PageSize(page).Pages(ctx, func(p *monitoring.ListTimeSeriesResponse) error {
		if len(p.ExecutionErrors) > 0 || len(p.Unreachable) > 0 {
			return errPartial
		}
		all = append(all, p.TimeSeries...)
		return nil
	})
	if err != nil {
		if noSuchMetric(err) {
			return nil, nil
		}
		return nil, r.explain(ctx, err)
	}
	return all, nil
}

// isProject reports whether a text can be the id or the number of a project.
func isProject(text string) bool {
	return len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.:") == ""
}

// checkEndpoint refuses an address over which the credentials would travel in the open.
func checkEndpoint(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return &Error{Kind: Misconfigured, Says: "monitoring_endpoint is not the URL of a server, as https://monitoring.googleapis.com"}
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http":
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() || u.Hostname() == "localhost" {
			return nil
		}
	}
	return &Error{Kind: Misconfigured, Says: "monitoring_endpoint must be https: the credentials are sent to it", Remedy: "Plain http is allowed on this machine only, as http://127.0.0.1:8080"}
}

// day is the label of series that count a day, in seconds.
const day = "86400s"

type tally struct {
	units int64
	until time.Time
}

// larger returns the tally that says more. The two kinds of series count the same calls,
// so they are never added up.
func (a tally) larger(b tally) tally {
	if c := cmp.Or(cmp.Compare(a.units, b.units), a.until.Compare(b.until)); c >= 0 {
		return a
	}
	return b
}

// add adds what another series of the same kind says.
func (a tally) add(b tally) tally {
	if b.until.After(a.until) {
		a.until = b.until
	}
	a.units += b.units
	return a
}

type point struct {
	start, end time.Time
	value      int64
}

// pointsOf reads the points of series, by the labels of the series: a series may come in
// several parts, on pages of their own. Points without a number are left out.
func pointsOf(all []*monitoring.TimeSeries) map[string]*seen {
	found := map[string]*seen{}
	for _, ts := range all {
		if ts == nil || ts.Metric == nil {
			continue
		}
		labels := map[string]string{}
		maps.Copy(labels, ts.Metric.Labels)
		key := fmt.Sprint(ts.Metric.Type, " ", labels) // maps are printed in order
		if ts.Resource != nil {
			key += fmt.Sprint(" ", ts.Resource.Type, " ", ts.Resource.Labels)
			for name, value := range ts.Resource.Labels {
				labels[name] = cmp.Or(labels[name], value)
			}
		}
		s := found[key]
		if s == nil {
			s = &seen{labels: labels, kind: ts.MetricKind}
			found[key] = s
		}
		for _, p := range ts.Points {
			if one, ok := pointOf(p); ok {
				s.points = append(s.points, one)
			}
		}
	}
	for _, s := range found {
		slices.SortFunc(s.points, func(a, b point) int {
			return cmp.Or(a.end.Compare(b.end), a.start.Compare(b.start), cmp.Compare(a.value, b.value))
		})
	}
	return found
}

type seen struct {
	labels map[string]string
	kind   string
	points []point // by their end
}

func pointOf(p *monitoring.Point) (point, bool) {
	if p == nil || p.Interval == nil || p.Value == nil {
		return point{}, false
	}
	end, err := time.Parse(time.RFC3339Nano, p.Interval.EndTime)
	if err != nil {
		return point{}, false
	}
	start, err := time.Parse(time.RFC3339Nano, p.Interval.StartTime)
	if err != nil {
		start = end
	}
	one := point{start: start, end: end}
	switch {
	case p.Value.Int64Value != nil:
		one.value = *p.Value.Int64Value
	case p.Value.DoubleValue != nil:
		one.value = int64(*p.Value.DoubleValue)
	default:
		return point{}, false
	}
	return one, true
}

// metric is the quota's metric, as youtube.googleapis.com/default.
func (s *seen) metric() string { return s.labels["quota_metric"] }

// ofDay reports whether a series of usage is about days, of which the present one began
// at since. The older series have no label for it.
func (s *seen) ofDay(since time.Time) bool {
	if size := s.labels["window_size"]; size != "" && size != day {
		return false
	}
	began, err := time.Parse(time.RFC3339Nano, s.labels["window_start_time"])
	return err != nil || began.Equal(since)
}

// usage returns what a series counts since the day began.
func (s *seen) usage(since time.Time) (t tally, ok bool) {
	last := point{}
	for _, p := range s.points {
		if !p.end.After(since) || p.value < 0 {
			continue
		}
		running := s.kind == "GAUGE" || s.kind == "CUMULATIVE"
		switch {
		case running && p.start.Before(since) && s.kind == "CUMULATIVE":
			continue // it counts from an earlier day on
		case running:
			t.units = p.value
		case p.start.Before(since):
			continue // the part of today is unknown
		case p.start.Before(last.end): // told twice, or again with more
			t.units += max(p.value-last.value, 0)
			p.value = max(p.value, last.value)
		default:
			t.units += p.value
		}
		last, t.until, ok = p, p.end, true
	}
	return t, ok
}

// usages returns what series of one kind count since the day began, by metric.
func usages(all []*monitoring.TimeSeries, since time.Time) map[string]tally {
	byLimit := map[[2]string]tally{} // a metric with two limits is counted for each
	for _, s := range pointsOf(all) {
		if t, ok := s.usage(since); ok && s.metric() != "" && s.ofDay(since) {
			key := [2]string{s.metric(), s.labels["limit_name"]}
			byLimit[key] = byLimit[key].add(t)
		}
	}
	found := map[string]tally{}
	for key, t := range byLimit {
		found[key[0]] = found[key[0]].larger(t)
	}
	return found
}

// limits returns the newest limit of a day, by metric. Without a limit, Google says -1.
func limits(all []*monitoring.TimeSeries) map[string]tally {
	found := map[string]tally{}
	for _, s := range pointsOf(all) {
		ofDay := s.labels["window_size"] == day || strings.Contains(s.labels["limit_name"], "PerDay")
		if len(s.points) == 0 || s.metric() == "" || !ofDay || !strings.HasSuffix(cmp.Or(s.labels["limit_name"], "PerProject"), "PerProject") {
			continue
		}
		p := s.points[len(s.points)-1]
		if known, has := found[s.metric()]; !has || p.end.After(known.until) || p.end.Equal(known.until) && p.value < known.units {
			found[s.metric()] = tally{p.value, p.end}
		}
	}
	return found
}
