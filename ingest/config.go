package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Config says what to run, as ingestor.yaml has it.
type Config struct {
	Regions     []string      `yaml:"regions,omitempty" doc:"The regions of jobs that name none."`
	MaxWait     time.Duration `yaml:"max_wait,omitempty" flag:"longest time to wait for units" doc:"The longest time that a call waits for its units. Work that would wait longer is deferred. 0s never waits."`
	Workers     int           `yaml:"workers,omitempty" zero:"no" doc:"The number of units of work that run at the same time."`
	CallTimeout time.Duration `yaml:"call_timeout,omitempty" zero:"no" doc:"The timeout of a call of the upstream."`
	// KeepStatisticsDays is the number of days for which views, likes and comment counts are
	// kept.
	KeepStatisticsDays int `yaml:"keep_statistics_days,omitempty" range:"30.." doc:"Days for which statistics are kept. YouTube allows more than 30 days only to audited developers who have accepted its amendment of 2026, and only for some statistics."`

	Jobs map[string]Job `yaml:"jobs" doc:"The jobs: what to fetch, and when."`
}

// The defaults of a configuration. [Config.Prepare] fills them in, except DefaultMaxWait: a
// MaxWait of 0 means that calls never wait.
const (
	DefaultMaxWait     = 2 * time.Minute
	DefaultWorkers     = 4
	DefaultCallTimeout = 30 * time.Second

	// DefaultKeepStatisticsDays is what YouTube's terms allow everybody.
	DefaultKeepStatisticsDays = 30
)

// DefaultConfig returns a configuration with every default, and no jobs.
func DefaultConfig() Config {
	return Config{
		Regions: slices.Clone(DefaultRegions), MaxWait: DefaultMaxWait, Workers: DefaultWorkers,
		CallTimeout: DefaultCallTimeout, KeepStatisticsDays: DefaultKeepStatisticsDays,
	}
}

const (
	maxWorkers            = 64
	maxKeepStatisticsDays = 3650
)

// Prepare fills in defaults and returns everything that is wrong with the configuration. It
// adds a retention job if the configuration has none, because old data must be deleted.
func (c *Config) Prepare() []Fault {
	var faults []Fault
	d := DefaultConfig()
	if len(c.Regions) == 0 {
		c.Regions = d.Regions
	}
	c.Workers = cmp.Or(c.Workers, d.Workers)
	c.CallTimeout = cmp.Or(c.CallTimeout, d.CallTimeout)
	c.KeepStatisticsDays = cmp.Or(c.KeepStatisticsDays, d.KeepStatisticsDays)
	if d := c.KeepStatisticsDays; d < DefaultKeepStatisticsDays || d > maxKeepStatisticsDays {
		faults = append(faults, Fault{"keep_statistics_days", fmt.Errorf("write %d to %d days, not %d", DefaultKeepStatisticsDays, maxKeepStatisticsDays, d)})
	}
	if err := CheckRegions(c.Regions); err != nil {
		faults = append(faults, Fault{"regions", err})
	}
	if c.MaxWait < 0 {
		faults = append(faults, Fault{"max_wait", fmt.Errorf("%s is negative", c.MaxWait)})
	}
	if c.CallTimeout < 0 {
		faults = append(faults, Fault{"call_timeout", fmt.Errorf("%s is negative", c.CallTimeout)})
	}
	if c.Workers < 1 || c.Workers > maxWorkers {
		faults = append(faults, Fault{"workers", fmt.Errorf("workers must be 1 to %d, not %d", maxWorkers, c.Workers)})
	}
	if len(c.Jobs) == 0 {
		return append(faults, Fault{"jobs", errors.New("there is no job\nTo write an example: ingestor init")})
	}
	c.addAlways()
	for _, name := range slices.Sorted(maps.Keys(c.Jobs)) {
		j := c.Jobs[name]
		j.Name = name
		j.setDefaults(c.Regions)
		faults = append(faults, j.check()...)
		c.Jobs[name] = j
	}
	return faults
}

// addAlways adds the jobs that every configuration must have.
func (c *Config) addAlways() {
	for _, row := range kinds {
		has := func(j Job) bool { return j.Kind == row.name }
		if row.always == "" || slices.ContainsFunc(slices.Collect(maps.Values(c.Jobs)), has) {
			continue
		}
		if _, taken := c.Jobs[string(row.name)]; !taken {
			c.Jobs[string(row.name)] = Job{Kind: row.name, Cron: row.always}
		}
	}
}

// List returns the enabled jobs, sorted by name.
func (c *Config) List() []*Job {
	var all []*Job
	for _, name := range slices.Sorted(maps.Keys(c.Jobs)) {
		if j := c.Jobs[name]; !j.Disabled {
			all = append(all, &j)
		}
	}
	return all
}
