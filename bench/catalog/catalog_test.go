package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/library"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// TestContenders keeps the benchmark running: each contender saves what it is given.
func TestContenders(t *testing.T) {
	l := library.New(1)
	var pages [][]catalog.Video
	for n := range 6 {
		pages = append(pages, l.Page(n))
	}
	for _, c := range contenders {
		if err := c.save(context.Background(), filepath.Join(t.TempDir(), "catalog.db"), pages); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestSearch fails when a search finds another number of videos than the bare query.
func TestSearch(t *testing.T) {
	if err := search(context.Background(), 500, 1, t.TempDir(), 1); err != nil {
		t.Error(err)
	}
}
