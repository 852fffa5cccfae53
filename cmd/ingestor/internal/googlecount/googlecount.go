// Package googlecount reads how many units of an API's quota a Google project has used,
// as Google itself counts them, and the limits that it grants. Cloud Monitoring has both.
// They come minutes late, and not for an API key: a service account or a person reads them.
package googlecount

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
