package jobs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// metricsFile is a file for node_exporter's textfile collector. It covers all jobs and
// pools of the ledger and the catalog, whichever process used them.
type metricsFile string

// check returns an error if the file cannot be written. It runs before anything is spent.
func (m metricsFile) check() error {
	if m == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(string(m))); err != nil || !info.IsDir() {
		return console.Config(fmt.Errorf("--metrics-file: there is no folder %s\nTo create it: mkdir -p '%s'", filepath.Dir(string(m)), filepath.Dir(string(m))))
	}
	if info, err := os.Stat(string(m)); err == nil && info.IsDir() {
		return console.Config(fmt.Errorf("--metrics-file: %s is a folder; name a file in it, as %s", m, filepath.Join(string(m), "ingestor.prom")))
	}
	return nil
}

// write replaces the file.
func (m metricsFile) write(w *works) error {
	if m == "" {
		return nil
	}
	measured := metrics.New(&metrics.Options{Log: w.log})
	src := view.Sources{Ledger: w.ledger, Catalog: w.catalog, Runner: w.runner, Jobs: w.settings.List()}
	if c, ok := w.catalog.(*pgcatalog.Catalog); ok {
		b, err := fleet.NewBoard(c)
		if err != nil {
			return err
		}
		src.Fleet = b
	}
	measured.SetSources(src)
	measured.Judge(verdict.NewReader(&verdict.Options{Clock: w.clock, MaxAge: w.settings.MaxAge}))
	return measured.WriteFile(string(m))
}
