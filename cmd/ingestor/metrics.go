package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/internal/metrics"

	"github.com/headroom-quota/headroom/internal/web/view"
)

// metricsFile is a file for node_exporter's textfile collector. It tells of all jobs and
// pools, whoever ran and spent them: what it says comes from the ledger and the catalog.
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

// write replaces the file by a new one.
func (m metricsFile) write(w *works) error {
	if m == "" {
		return nil
	}
	told := metrics.New(&metrics.Options{Log: w.log})
	told.SetSources(view.Sources{Ledger: w.ledger, Catalog: w.catalog, Runner: w.runner, Jobs: w.settings.List()})
	return told.WriteFile(string(m))
}
