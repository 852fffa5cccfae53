//go:build manual

package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"
)

var manual = flag.String("manual", "", "folder to write the manual pages and completions to")

// TestManual writes what packages have beside the program: a manual page for each command, and
// completions for three shells. `make release` runs it.
func TestManual(t *testing.T) {
	if *manual == "" {
		t.Skip("write a folder: -manual DIR")
	}
	root := commands()
	root.DisableAutoGenTag = true
	when := time.Unix(0, 0)
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		d, err := time.ParseDuration(text + "s")
		if err != nil {
			t.Fatal(err)
		}
		when = time.Unix(int64(d/time.Second), 0)
	}
	if err := doc.GenManTree(root, &doc.GenManHeader{Title: "INGESTOR", Section: "1", Source: "Headroom", Manual: "Headroom", Date: &when}, *manual); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(string) error{
		"ingestor.bash": func(p string) error { return root.GenBashCompletionFileV2(p, true) },
		"_ingestor":     root.GenZshCompletionFile,
		"ingestor.fish": func(p string) error { return root.GenFishCompletionFile(p, true) },
	} {
		if err := write(filepath.Join(*manual, name)); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(*manual, "*.1"))
	if err != nil || len(pages) < len(root.Commands()) {
		t.Errorf("%d manual pages for %d commands: %v", len(pages), len(root.Commands()), err)
	}
}
