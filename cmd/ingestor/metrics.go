package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// metricsFile is a file for node_exporter's textfile collector. It tells of all jobs,
// whichever of them this process ran: what it says comes from the catalog. Times and
// no ages, because the file is read later than it is written.
type metricsFile string

// check refuses a file that could not be written, before anything is spent.
func (m metricsFile) check() error {
	if m == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(string(m))); err != nil || !info.IsDir() {
		return config(fmt.Errorf("--metrics-file: there is no folder %s; make it: mkdir -p '%s'", filepath.Dir(string(m)), filepath.Dir(string(m))))
	}
	if info, err := os.Stat(string(m)); err == nil && info.IsDir() {
		return config(fmt.Errorf("--metrics-file: %s is a folder; name a file in it, as %s", m, filepath.Join(string(m), "ingestor.prom")))
	}
	return nil
}

// write replaces the file by a new one: whoever reads it sees the old or the new.
func (m metricsFile) write(ctx context.Context, w *works, now time.Time) (err error) {
	if m == "" {
		return nil
	}
	text, err := metrics(ctx, w, now)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(string(m)), "."+filepath.Base(string(m))+"-*")
	if err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the metrics: %w", errors.Join(err, os.Remove(temporary.Name())))
		}
	}()
	_, err = temporary.WriteString(text)
	if err := errors.Join(err, temporary.Chmod(0o644), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), string(m))
}

// metrics are what the catalog knows, in Prometheus' text format.
func metrics(ctx context.Context, w *works, now time.Time) (string, error) {
	var m exposition
	m.family("ingestor_run_state", "Whether the job's last run is in this state.")
	m.family("ingestor_run_units", "Units that the job's last run spent.")
	m.family("ingestor_run_pages", "Pages that the job's last run saved.")
	m.family("ingestor_run_started_timestamp_seconds", "When the job's last run began.")
	m.family("ingestor_run_ended_timestamp_seconds", "When the job's last run ended.")
	m.family("ingestor_job_next_timestamp_seconds", "When the job goes on with what was deferred, or is due again.")
	m.family("ingestor_region_completed_timestamp_seconds", "When the job last completed a region: its stalest work; 0 is never.")
	for _, j := range w.settings.List() {
		if err := m.job(ctx, w, j, now); err != nil {
			return "", err
		}
	}
	return m.text(), nil
}

// job adds what is known of a job.
func (m *exposition) job(ctx context.Context, w *works, j *ingest.Job, now time.Time) error {
	runs, err := w.catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 1})
	if err != nil {
		return err
	}
	label := labels{"job", j.Name}
	for _, r := range runs {
		for _, state := range []catalog.State{catalog.Running, catalog.Done, catalog.Deferred, catalog.Failed} {
			is := int64(0)
			if r.State == state {
				is = 1
			}
			m.add("ingestor_run_state", is, append(label, "state", string(state)))
		}
		units, pages := int64(0), 0
		for _, one := range r.Work {
			units += one.Units
			pages += one.Pages
		}
		m.add("ingestor_run_units", units, label)
		m.add("ingestor_run_pages", int64(pages), label)
		m.add("ingestor_run_started_timestamp_seconds", r.StartedAt.Unix(), label)
		if !r.EndedAt.IsZero() {
			m.add("ingestor_run_ended_timestamp_seconds", r.EndedAt.Unix(), label)
		}
	}
	next, err := w.next(ctx, j, now)
	if err != nil {
		return err
	}
	m.add("ingestor_job_next_timestamp_seconds", next.Unix(), label)
	return m.regions(ctx, w, j)
}

// regions adds how stale each region of a job is.
func (m *exposition) regions(ctx context.Context, w *works, j *ingest.Job) error {
	fresh, err := w.runner.Freshness(ctx, j)
	if err != nil {
		return err
	}
	for _, f := range fresh {
		at := int64(0)
		if !f.CompletedAt.IsZero() {
			at = f.CompletedAt.Unix()
		}
		m.add("ingestor_region_completed_timestamp_seconds", at, labels{"job", j.Name, "region", f.Region})
	}
	return nil
}

// exposition is metrics by family, in Prometheus' text format.
type exposition struct {
	names    []string
	families map[string]*strings.Builder
}

func (m *exposition) family(name, help string) {
	if m.families == nil {
		m.families = map[string]*strings.Builder{}
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
	m.names = append(m.names, name)
	m.families[name] = b
}

// labels are names and values in turn.
type labels []string

// labelEscapes are those of the format.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (m *exposition) add(family string, value int64, of labels) {
	var pairs []string
	for i := 0; i < len(of); i += 2 {
		pairs = append(pairs, of[i]+`="`+labelEscapes.Replace(of[i+1])+`"`)
	}
	fmt.Fprintf(m.families[family], "%s{%s} %s\n", family, strings.Join(pairs, ","), strconv.FormatInt(value, 10))
}

func (m *exposition) text() string {
	var b strings.Builder
	for _, name := range m.names {
		b.WriteString(m.families[name].String())
	}
	return b.String()
}
