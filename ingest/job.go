package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Misfire is what a daemon does with a time that it missed: it was not up, the run
// before had not ended, or another process had the job.
type Misfire string

// What can be done with a time that was missed.
const (
	Skip Misfire = "skip" // wait for the next
	Once Misfire = "once" // run now, once for all that were missed
)

// Job is a list of units of work with a schedule. Units of work are taken
// stalest first, so a run that is cut short starves nobody.
type Job struct {
	Name     string `yaml:"-"`
	Kind     Kind   `yaml:"kind" jsonschema_description:"What is fetched."`
	Disabled bool   `yaml:"disabled,omitempty" jsonschema_description:"Leave this job out."`

	Cron    string        `yaml:"schedule" jsonschema_description:"When: a cron expression of five fields, or @hourly, @daily, @weekly, @monthly, @every 30m."`
	Zone    string        `yaml:"zone,omitempty" jsonschema_description:"Whose hours those are; UTC if empty."`
	Jitter  time.Duration `yaml:"jitter,omitempty" jsonschema_description:"A run starts up to so much later, at random."`
	Stagger time.Duration `yaml:"stagger,omitempty" jsonschema_description:"Each region of a run starts so much after the one before, the stalest first."`

	Regions    []string `yaml:"regions,omitempty" jsonschema_description:"Countries, as US or DE; those at the top if empty."`
	Categories []string `yaml:"categories,omitempty" jsonschema_description:"Of charts: video category ids; 0 is all."`
	Queries    []string `yaml:"queries,omitempty" jsonschema_description:"Of searches: what to look for."`
	Channels   []string `yaml:"channels,omitempty" jsonschema_description:"Of uploads: channel ids."`
	Pages      int      `yaml:"pages,omitempty" zero:"no" jsonschema_description:"Pages of a unit of work at most."`

	Account    string        `yaml:"account,omitempty" jsonschema_description:"Whose quota is spent."`
	Class      string        `yaml:"class,omitempty" jsonschema_description:"A class of costs.yaml."`
	MaxUnits   int64         `yaml:"max_units,omitempty" jsonschema_description:"Units that one run spends at most; 0 is as many as there are."`
	MaxRuntime time.Duration `yaml:"max_runtime,omitempty" jsonschema_description:"How long one run takes at most; 0 is until it is due again."`

	Misfire     Misfire       `yaml:"misfire,omitempty" jsonschema:"enum=skip,enum=once" jsonschema_description:"What to do about a run that was missed."`
	MaxLateness time.Duration `yaml:"max_lateness,omitempty" zero:"no" jsonschema_description:"A run missed longer ago than this is skipped in any case."`

	// Since and Until bound what a backfill of a search looks for; zero is what is
	// new.
	Since time.Time `yaml:"-"`
	Until time.Time `yaml:"-"`

	schedule Schedule
}

// Schedule returns when the job is due.
func (j *Job) Schedule() Schedule { return j.schedule }

// DefaultRegions are those of a configuration that names none.
var DefaultRegions = []string{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}

// Fault is one thing that is wrong in a configuration.
type Fault struct {
	Path string // of the setting, as jobs.trending.schedule
	Err  error
}

func (f Fault) Error() string { return f.Path + ": " + f.Err.Error() }

// Unwrap returns what is wrong, without its place.
func (f Fault) Unwrap() error { return f.Err }

// setDefaults fills in what the job leaves out.
func (j *Job) setDefaults(regions []string) {
	if len(j.Regions) == 0 {
		j.Regions = regions
	}
	row := j.Kind.row()
	if list := j.entries(row.list); len(*list) == 0 {
		*list = slices.Clone(row.lists)
	}
	j.Pages = cmp.Or(j.Pages, row.pages, 1)
	j.Misfire = cmp.Or(j.Misfire, Once)
	j.MaxLateness = cmp.Or(j.MaxLateness, 24*time.Hour)
}

// MaxPages is how many a job may have of a unit of work: more than any upstream has, and an end where one has none.
const MaxPages = 1000

// ErrJobName says that the name of a job is invalid.
var ErrJobName = errors.New("a job's name is lower-case letters, digits and _, and begins with a letter")

var jobName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// check returns all that is wrong with the job, and works out its schedule.
func (j *Job) check() []Fault {
	var faults []Fault
	fault := func(field string, err error) {
		if err != nil {
			faults = append(faults, Fault{Path: strings.TrimSuffix("jobs."+j.Name+"."+field, "."), Err: err})
		}
	}
	if !jobName.MatchString(j.Name) {
		fault("", ErrJobName)
	}
	row := j.Kind.row()
	if row.name == "" {
		fault("kind", fmt.Errorf("there is no kind %q; write one of %s", j.Kind, joined(Kinds())))
	}
	var err error
	if j.schedule, err = ParseSchedule(j.Cron, ""); err != nil {
		fault("schedule", err)
	} else if j.schedule, err = ParseSchedule(j.Cron, j.Zone); err != nil {
		fault("zone", err)
	} else if row.daily && !j.Disabled && j.schedule.rests() {
		fault("schedule", errors.New("retention must be due once a day at least: nothing may be kept for more than 30 days"))
	}
	if j.Misfire != Skip && j.Misfire != Once {
		fault("misfire", fmt.Errorf("there is no misfire %q; write skip or once", j.Misfire))
	}
	if j.Pages < 1 || j.Pages > MaxPages {
		fault("pages", fmt.Errorf("pages must be 1 to %d, not %d", MaxPages, j.Pages))
	}
	if j.MaxUnits < 0 {
		fault("max_units", fmt.Errorf("units cannot be negative, as %d", j.MaxUnits))
	}
	for _, d := range []struct {
		field string
		time.Duration
	}{{"jitter", j.Jitter}, {"stagger", j.Stagger}, {"max_runtime", j.MaxRuntime}, {"max_lateness", j.MaxLateness}} {
		if d.Duration < 0 {
			fault(d.field, fmt.Errorf("a time cannot be negative, as %s", d.Duration))
		}
	}
	fault("regions", CheckRegions(j.Regions))
	j.checkWork(fault)
	return faults
}

// checkWork refuses lists that the kind needs and lacks, or has and does not read.
func (j *Job) checkWork(fault func(string, error)) {
	for _, row := range kinds {
		switch list := *j.entries(row.list); {
		case row.name == j.Kind && row.list != "" && len(list) == 0:
			fault(row.list, fmt.Errorf("a job of kind %s needs %s", j.Kind, row.list))
		case row.name != j.Kind && len(list) > 0:
			fault(row.list, fmt.Errorf("%s belong to %s jobs, this is %s", row.list, row.name, j.Kind))
		default:
			fault(row.list, checkList(list))
		}
	}
}

func checkList(all []string) error {
	for i, s := range all {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("number %d is empty", i+1)
		}
		if slices.Contains(all[:i], s) {
			return fmt.Errorf("%q is there twice", s)
		}
	}
	return nil
}

var regionCode = regexp.MustCompile(`^[A-Z]{2}$`)

// IsRegion reports whether a code is written as a region is: two capital letters.
func IsRegion(code string) bool { return regionCode.MatchString(code) }

// CheckRegions refuses what is not written as a region is, and one that is there twice.
func CheckRegions(regions []string) error {
	for _, r := range regions {
		switch {
		case r == "UK":
			return errors.New("region UK is written GB")
		case !IsRegion(r):
			return fmt.Errorf("region %q is not two capital letters, as US or DE", r)
		}
	}
	return checkList(regions)
}

// joined writes names for an error.
func joined[S ~string](all []S) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
