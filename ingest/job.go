package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/pattern"
)

// Misfire says what a daemon does about a run that it missed. It was not running, the
// previous run had not ended, or another process ran the job.
type Misfire string

// The values of Misfire.
const (
	Skip Misfire = "skip" // wait for the next time
	Once Misfire = "once" // run now, once for all missed times
)

// Job is a list of units of work with a schedule. A run takes the stalest work first, so a
// run that is cut short starves no region.
type Job struct {
	Name     string `yaml:"-"`
	Kind     Kind   `yaml:"kind" doc:"The kind of data to fetch, or command, which runs a program."`
	Disabled bool   `yaml:"disabled,omitempty" doc:"Do not run this job."`

	Cron    string        `yaml:"schedule" doc:"When the job is due: a cron expression of five fields, or @hourly, @daily, @weekly, @monthly, @every 30m."`
	Zone    string        `yaml:"zone,omitempty" doc:"The time zone of the schedule; UTC if empty."`
	Jitter  time.Duration `yaml:"jitter,omitempty" doc:"The longest random delay before a run."`
	Stagger time.Duration `yaml:"stagger,omitempty" doc:"The delay between the regions of a run, stalest first."`

	Regions    []string `yaml:"regions,omitempty" doc:"Regions, as US or DE. If empty, the regions at the top of the file."`
	Categories []string `yaml:"categories,omitempty" doc:"For charts: ids of video categories; 0 means all."`
	Queries    []string `yaml:"queries,omitempty" doc:"For searches: the texts to search for."`
	Channels   []string `yaml:"channels,omitempty" doc:"For uploads: ids of channels."`
	Pages      int      `yaml:"pages,omitempty" zero:"no" doc:"The most pages of a unit of work in one run."`

	Account string `yaml:"account,omitempty" doc:"The account whose quota is spent."`
	Class   string `yaml:"class,omitempty" doc:"A class of the price book."`
	Program `yaml:",inline"`

	MaxUnits   int64         `yaml:"max_units,omitempty" doc:"The most units that one run spends, summed over all pools that its calls charge; 0 sets no limit."`
	MaxRuntime time.Duration `yaml:"max_runtime,omitempty" doc:"The longest time that one run takes; 0 means until the job is due again."`

	Misfire     Misfire       `yaml:"misfire,omitempty" words:"skip|once" doc:"What to do about a missed run."`
	MaxLateness time.Duration `yaml:"max_lateness,omitempty" zero:"no" doc:"A run missed longer ago than this is always skipped."`

	// Since and Until bound the dates of publication of a backfill. Both are zero for a
	// job that fetches new videos.
	Since time.Time `yaml:"-"`
	Until time.Time `yaml:"-"`

	schedule Schedule
}

// Schedule returns when the job is due.
func (j *Job) Schedule() Schedule { return j.schedule }

// DefaultRegions are the regions of a configuration that names none.
var DefaultRegions = []string{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}

// Fault is one error of a configuration.
type Fault struct {
	Path string // of the setting, as jobs.trending.schedule
	Err  error
}

func (f Fault) Error() string { return f.Path + ": " + f.Err.Error() }

// Unwrap returns the error without its place.
func (f Fault) Unwrap() error { return f.Err }

func (j *Job) setDefaults(regions []string) {
	if len(j.Regions) == 0 {
		j.Regions = regions
	}
	row := j.Kind.row()
	if list, has := j.lists()[row.list]; has && len(*list) == 0 {
		*list = slices.Clone(row.lists)
	}
	j.Pages = cmp.Or(j.Pages, row.pages, 1)
	if row.runs {
		j.Program.setDefaults()
	}
	j.Misfire = cmp.Or(j.Misfire, Once)
	j.MaxLateness = cmp.Or(j.MaxLateness, 24*time.Hour)
}

// MaxPages is the most pages that a unit of work may have. It exceeds what upstreams have,
// and ends a pass that would never end.
const MaxPages = 1000

// ErrJobName says that the name of a job is invalid.
var ErrJobName = errors.New("a job's name is lower-case letters, digits and _, and begins with a letter")

// jobName leaves out that a name has up to 63 bytes: to count them makes it dear to compile.
var jobName = pattern.Of(`^[a-z][a-z0-9_]*$`)

// check returns everything that is wrong with the job, and parses its schedule.
func (j *Job) check() []Fault {
	var faults []Fault
	fault := func(field string, err error) {
		if err != nil {
			faults = append(faults, Fault{Path: strings.TrimSuffix("jobs."+j.Name+"."+field, "."), Err: err})
		}
	}
	if len(j.Name) > 63 || !jobName().MatchString(j.Name) {
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
	} else if row.daily && !j.Disabled && j.schedule.skipsDays() {
		fault("schedule", errors.New("retention must be due once a day at least, because no data may be kept for more than 30 days"))
	}
	if j.Misfire != Skip && j.Misfire != Once {
		fault("misfire", fmt.Errorf("there is no misfire %q; write skip or once", j.Misfire))
	}
	if j.Pages < 1 || j.Pages > MaxPages {
		fault("pages", fmt.Errorf("pages must be 1 to %d, not %d", MaxPages, j.Pages))
	}
	if j.MaxUnits < 0 {
		fault("max_units", fmt.Errorf("%d is negative", j.MaxUnits))
	}
	for _, d := range []struct {
		field string
		time.Duration
	}{{"jitter", j.Jitter}, {"stagger", j.Stagger}, {"max_runtime", j.MaxRuntime}, {"max_lateness", j.MaxLateness}} {
		if d.Duration < 0 {
			fault(d.field, fmt.Errorf("%s is negative", d.Duration))
		}
	}
	fault("regions", CheckRegions(j.Regions))
	j.checkWork(fault)
	j.checkProgram(fault)
	return faults
}

// checkWork refuses a list that the kind needs and that is missing, and a list that the
// kind does not read.
func (j *Job) checkWork(fault func(string, error)) {
	mine, lists := j.Kind.row().list, j.lists()
	for _, field := range slices.Sorted(maps.Keys(lists)) {
		switch list := *lists[field]; {
		case field == mine && len(list) == 0:
			fault(field, fmt.Errorf("a job of kind %s needs %s", j.Kind, field))
		case field != mine && len(list) > 0:
			owner := kinds[slices.IndexFunc(kinds, func(row *kind) bool { return row.list == field })]
			fault(field, fmt.Errorf("%s belong to %s jobs, but this job is %s", field, owner.name, j.Kind))
		default:
			fault(field, checkList(list))
		}
	}
}

func checkList(all []string) error {
	for i, s := range all {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("number %d is empty", i+1)
		}
		if slices.Contains(all[:i], s) {
			return fmt.Errorf("%q is listed twice", s)
		}
	}
	return nil
}

var regionCode = pattern.Of(`^[A-Z]{2}$`)

// IsRegion reports whether a code has the form of a region: two capital letters.
func IsRegion(code string) bool { return regionCode().MatchString(code) }

// CheckRegions returns an error if a region is misspelt or listed twice.
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

func joined[S ~string](all []S) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
