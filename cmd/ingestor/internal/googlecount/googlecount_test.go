package googlecount_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoring "google.golang.org/api/monitoring/v3"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/googlecount"
	sim "github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/monitoringsim"
)

// midnight is the beginning of a day in California, and at a time of it.
var midnight = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return midnight.Add(d) }

// newReader returns a reader of a server's counts, as a service account.
func newReader(t *testing.T) (*sim.Server, *googlecount.Reader) {
	t.Helper()
	s := sim.New()
	t.Cleanup(s.Close)
	text, err := s.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	return s, open(t, s, text)
}

func open(t *testing.T, s *sim.Server, credentials []byte) *googlecount.Reader {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, credentials, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := googlecount.Open(t.Context(), &googlecount.Options{Credentials: file, Endpoint: s.URL, Service: "youtube.googleapis.com"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func usage(kind, metric string, labels ...string) *monitoring.TimeSeries {
	return sim.Series(kind, metric, labels...)
}

// What the series say is what Google has counted, whatever is late, missing, double or
// about something else.
func TestRead(t *testing.T) {
	const main = "youtube.googleapis.com/default"
	daily := []string{"limit_name", "defaultPerDayPerProject"}
	running := func(metric string, labels ...string) *monitoring.TimeSeries {
		return usage(sim.Usage2, metric, append([]string{"window_start_time", "2026-11-20T08:00:00Z"}, labels...)...)
	}
	limit := sim.Add(usage(sim.Limit, "default", daily...), at(time.Minute), 10_000)
	limited := func(c googlecount.Count) googlecount.Count {
		c.Metric, c.Limit, c.Limited = main, 10_000, true
		return c
	}
	for _, test := range []struct {
		name   string
		series []*monitoring.TimeSeries
		want   []googlecount.Count
	}{
		{"no points of today", []*monitoring.TimeSeries{limit, sim.Add(usage(sim.Usage, "default"), midnight, 7)}, []googlecount.Count{limited(googlecount.Count{})}},
		{"minutes with gaps, of several methods", []*monitoring.TimeSeries{
			limit,
			sim.Add(sim.Add(usage(sim.Usage, "default", "method", "list"), at(time.Minute), 3), at(50*time.Minute), 4),
			sim.Add(usage(sim.Usage, "default", "method", "insert"), at(52*time.Minute), 50),
		}, []googlecount.Count{limited(googlecount.Count{Units: 57, Until: at(52 * time.Minute)})}},
		{"the same points twice, and one again with more", []*monitoring.TimeSeries{
			limit,
			sim.Add(sim.Add(usage(sim.Usage, "default"), at(5*time.Minute), 3), at(6*time.Minute), 4),
			sim.Add(sim.Add(usage(sim.Usage, "default"), at(5*time.Minute), 3), at(6*time.Minute), 9),
			sim.Add(usage(sim.Usage, "default"), at(5*time.Minute), 3),
		}, []googlecount.Count{limited(googlecount.Count{Units: 12, Until: at(6 * time.Minute)})}},
		{"a point from before midnight", []*monitoring.TimeSeries{
			limit,
			sim.Between(sim.Add(usage(sim.Usage, "default"), at(5*time.Minute), 3), at(-time.Hour), at(time.Minute), 100),
		}, []googlecount.Count{limited(googlecount.Count{Units: 3, Until: at(5 * time.Minute)})}},
		{"only the newer series", []*monitoring.TimeSeries{
			sim.Add(sim.Add(running("default", daily...), at(5*time.Minute), 3), at(9*time.Minute), 40),
			sim.Add(usage(sim.Limit2, "default", daily...), at(9*time.Minute), 10_000),
		}, []googlecount.Count{limited(googlecount.Count{Units: 40, Until: at(9 * time.Minute)})}},
		{"both series, which are not added up", []*monitoring.TimeSeries{
			limit,
			sim.Add(usage(sim.Usage, "default"), at(8*time.Minute), 30),
			sim.Add(running("default", daily...), at(5*time.Minute), 20),
		}, []googlecount.Count{limited(googlecount.Count{Units: 30, Until: at(8 * time.Minute)})}},
		{"each metric in another series", []*monitoring.TimeSeries{
			limit,
			sim.Add(usage(sim.Usage, "default"), at(8*time.Minute), 30),
			sim.Add(running("search_list"), at(5*time.Minute), 20),
		}, []googlecount.Count{limited(googlecount.Count{Units: 30, Until: at(8 * time.Minute)}), {Metric: "youtube.googleapis.com/search_list", Units: 20, Until: at(5 * time.Minute)}}},
		{"another day, another length, and two limits", []*monitoring.TimeSeries{
			limit,
			sim.Add(usage(sim.Usage2, "default", "window_start_time", "2026-11-19T08:00:00Z"), at(time.Minute), 9_000),
			sim.Add(running("default", "window_size", "60s"), at(5*time.Minute), 77),
			sim.Add(running("default", daily...), at(5*time.Minute), 20),
			sim.Add(running("default", "limit_name", "other"), at(5*time.Minute), 20),
		}, []googlecount.Count{limited(googlecount.Count{Units: 20, Until: at(5 * time.Minute)})}},
		{"the newest limit, and only that of a project's day", []*monitoring.TimeSeries{
			sim.Add(sim.Add(usage(sim.Limit, "default", daily...), at(-20*time.Hour), 50_000), at(-3*time.Hour), 10_000),
			sim.Add(usage(sim.Limit, "default", "limit_name", "defaultPerMinutePerProject"), at(time.Hour), 1_800),
			sim.Add(usage(sim.Limit, "default", "limit_name", "defaultPerDayPerUser"), at(time.Hour), 5),
		}, []googlecount.Count{limited(googlecount.Count{})}},
		{"without a limit", []*monitoring.TimeSeries{sim.Add(usage(sim.Limit, "default", daily...), at(time.Minute), -1)}, []googlecount.Count{{Metric: main}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, r := newReader(t)
			s.Set(test.series...)
			for _, page := range []int{1000, 1} {
				s.Pages(page)
				got, err := r.Read(t.Context(), midnight, at(2*time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("pages of %d points (-want +got):\n%s", page, diff)
				}
			}
		})
	}
}

// A project that has never had the newer series is one without them.
func TestReadWithoutTheNewerSeries(t *testing.T) {
	s, r := newReader(t)
	s.Forget(sim.Usage2)
	s.Forget(sim.Limit2)
	s.Set(sim.Add(usage(sim.Usage, "default"), at(time.Minute), 3))
	if got, err := r.Read(t.Context(), midnight, at(time.Hour)); err != nil || len(got) != 1 || got[0].Units != 3 {
		t.Error(got, err)
	}
}

// Whatever goes wrong, the error says what to do, and shows no secret.
func TestErrorsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*sim.Server)
		kind googlecount.Kind
		want []string
	}{
		{"no role", func(s *sim.Server) {
			s.Refuse(&sim.Refusal{Status: 403, Code: "PERMISSION_DENIED", Reason: "IAM_PERMISSION_DENIED", Says: "Permission monitoring.timeSeries.list denied"})
		}, googlecount.Rights, []string{"roles/monitoring.viewer", "gcloud projects add-iam-policy-binding headroom-test --member serviceAccount:" + sim.Email + " --role roles/monitoring.viewer"}},
		{"another project", func(s *sim.Server) { s.Project = "moved" }, googlecount.Rights, []string{"in the project headroom-test"}},
		{"the API is off", func(s *sim.Server) {
			s.Refuse(&sim.Refusal{Status: 403, Code: "PERMISSION_DENIED", Reason: "SERVICE_DISABLED", Consumer: "projects/1234", Says: "Cloud Monitoring API has not been used"})
		}, googlecount.Rights, []string{"gcloud services enable monitoring.googleapis.com --project 1234"}},
		{"a consumer that is no project", func(s *sim.Server) {
			s.Refuse(&sim.Refusal{Status: 403, Reason: "SERVICE_DISABLED", Consumer: "projects/x; rm -rf /"})
		}, googlecount.Rights, []string{"--project headroom-test"}},
		{"a token that has expired", func(s *sim.Server) { s.Refuse(&sim.Refusal{Status: 401, Code: "UNAUTHENTICATED"}) }, googlecount.Credential, []string{"does not accept", "gcloud iam service-accounts keys create FILE --iam-account " + sim.Email}},
		{"a key that was deleted", (*sim.Server).Revoke, googlecount.Credential, []string{"does not accept"}},
		{"a token server that repeats what it was told", func(s *sim.Server) {
			s.Token(func(w http.ResponseWriter, assertion string) bool {
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, `{"error": "`+assertion+`", "error_description": "`+assertion+`"}`)
				return true
			})
		}, googlecount.Credential, []string{"does not accept"}},
		{"a token server that is down", func(s *sim.Server) {
			s.Token(func(w http.ResponseWriter, assertion string) bool {
				w.WriteHeader(http.StatusServiceUnavailable)
				io.WriteString(w, assertion)
				return true
			})
		}, googlecount.Down, []string{"token server has answered with status 503"}},
		{"no such project", func(s *sim.Server) { s.Refuse(&sim.Refusal{Status: 404, Code: "NOT_FOUND", Says: "no such resource"}) }, googlecount.Misconfigured, []string{"google_project"}},
		{"no quota there", func(*sim.Server) {}, googlecount.Misconfigured, []string{"knows no quota of youtube.googleapis.com in the project headroom-test"}},
		{"too many requests", func(s *sim.Server) { s.Refuse(&sim.Refusal{Status: 429}) }, googlecount.Down, []string{"status 429"}},
		{"an outage", func(s *sim.Server) { s.Refuse(&sim.Refusal{Status: 503, Says: "key=secret"}) }, googlecount.Down, []string{"status 503"}},
		{"nobody there", func(s *sim.Server) { s.Close() }, googlecount.Down, []string{"cannot be reached: connection refused"}},
		{"an answer that is none", func(s *sim.Server) {
			s.Token(func(w http.ResponseWriter, assertion string) bool { io.WriteString(w, "<"+assertion); return true })
		}, googlecount.Credential, []string{"does not accept"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, r := newReader(t)
			secrets := append(s.Secrets(), "secret", "eyJ")
			test.do(s)
			_, err := r.Read(t.Context(), midnight, at(time.Hour))
			var says *googlecount.Error
			if !errors.As(err, &says) || says.Kind != test.kind {
				t.Fatalf("%v, want one of kind %s", err, test.kind)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			for _, secret := range secrets {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q shows %q", err, secret)
				}
			}
		})
	}
}

// A file whose key is none is told when it is needed, without the key.
func TestAKeyThatIsNone(t *testing.T) {
	s, _ := newReader(t)
	r := open(t, s, []byte(`{"type": "service_account", "project_id": "headroom-test", "client_email": "e", "private_key": "secret", "token_uri": "`+s.URL+`/token"}`))
	_, err := r.Read(t.Context(), midnight, at(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "does not accept") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// A caller that gives up gets its own error.
func TestReadCancelled(t *testing.T) {
	_, r := newReader(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx, midnight, at(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		options googlecount.Options
		want    string
	}{
		"a missing file":         {googlecount.Options{Credentials: filepath.Join(dir, "none")}, "no such file"},
		"an API key":             {googlecount.Options{Credentials: write("key", "AIzaSecret")}, "An API key cannot read the count"},
		"another kind":           {googlecount.Options{Credentials: write("kind", `{"type": "secret"}`)}, "not a file of Google credentials"},
		"no project":             {googlecount.Options{Credentials: write("user", `{"type": "authorized_user", "client_id": "c", "client_secret": "secret", "refresh_token": "secret"}`)}, "Set google_project"},
		"an odd project":         {googlecount.Options{Project: "a/../b", Credentials: write("user2", `{"type": "authorized_user"}`)}, "is not the id of a Google project"},
		"plain http elsewhere":   {googlecount.Options{Endpoint: "http://monitoring.example.com"}, "must be https"},
		"no URL":                 {googlecount.Options{Endpoint: "monitoring"}, "not the URL"},
		"a password in the URL":  {googlecount.Options{Endpoint: "https://a:secret@example.com"}, "not the URL"},
		"http to another number": {googlecount.Options{Endpoint: "http://127.0.0.1.example.com"}, "must be https"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := googlecount.Open(t.Context(), &test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "Secret") {
				t.Errorf("%q shows a secret", err)
			}
		})
	}
}
