package settings

import (
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
)

// Reconciling are the settings about Google's own count. The name is exported because the
// decoders want that of an embedded type.
type Reconciling struct {
	GoogleProject      string        `yaml:"google_project,omitempty" restart:"yes" flag:"'id' of the Google project whose units are counted" doc:"The Google project of the API key, for ingestor reconcile and watch. Empty is the project of the credentials."`
	GoogleCredentials  string        `yaml:"google_credentials,omitempty" restart:"yes" flag:"'file' of the service account that may read Google's own count" doc:"A file with the key of a service account that has the role roles/monitoring.viewer. Empty means the default credentials of the environment."`
	Watch              bool          `yaml:"watch,omitempty" restart:"yes" flag:"compare the ledger with Google's own count every few minutes" doc:"Compare the ledger with Google's own count every few minutes in ingestor run and serve, and record the units of others."`
	WatchEvery         time.Duration `yaml:"watch_every,omitempty" restart:"yes" zero:"no" doc:"How often watch asks for Google's own count."`
	AdoptLimits        bool          `yaml:"adopt_limits,omitempty" restart:"yes" flag:"use the limits that Google reports, also those above the price book" doc:"Use the limits of a day that Google reports in place of the quotas of the price book, also larger ones. Without it they are shown only."`
	MonitoringEndpoint string        `yaml:"monitoring_endpoint,omitempty" restart:"yes" doc:"Another address of Cloud Monitoring, such as that of a proxy."`
}

// watchEvery is how often Google's own count is read. It comes about seven minutes late.
const watchEvery = 3 * time.Minute

// checkWatch checks the settings about Google's own count.
func (s *Settings) checkWatch() (faults faults) {
	if s.WatchEvery < time.Minute || s.WatchEvery > 12*time.Hour {
		faults.add("watch_every", "it must be 1m to 12h: Google counts by the minute")
	}
	return faults
}

// learnLimits makes the price book adopt larger limits, too, if the settings say so.
func (s *Settings) learnLimits() {
	u := s.Book.Upstreams[Metered]
	if u == nil {
		return
	}
	nameMetrics(u)
	for _, pool := range u.Pools {
		if pool.Metric != "" && s.AdoptLimits {
			pool.LearnLimit = true
		}
	}
}

// nameMetrics gives the pools of a price book that names no metrics those of the built-in
// book: earlier books have none.
func nameMetrics(u *book.Upstream) {
	for _, pool := range u.Pools {
		if pool.Metric != "" {
			return
		}
	}
	builtin, err := headroom.Load("")
	if err != nil { // a test reads it
		return
	}
	for name, pool := range u.Pools {
		if known := builtin.Upstreams[Metered].Pools[name]; known != nil {
			pool.Metric = known.Metric
		}
	}
}

// CountsUnits reports whether the settings say how to read Google's own count.
func (s *Settings) CountsUnits() bool {
	if s.Watch || s.GoogleProject != "" || s.GoogleCredentials != "" {
		return true
	}
	for _, own := range s.Accounts {
		if own.Project != "" {
			return true
		}
	}
	return false
}
