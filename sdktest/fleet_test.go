package sdktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// process is what a program has of its own: a ledger over its own handle of the shared
// file, a transport and connections.
type process struct {
	ledger *quota.Ledger
	client *http.Client
}

// patience is how long a call waits for its units: as long as a run lasts.
const patience = 24 * time.Hour

// parse reads a price book. In its text, HOST is the address of the server.
func parse(t testing.TB, text, addr string) *book.Book {
	t.Helper()
	b, err := parseFor(text, addr)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parseFor(text, addr string) (*book.Book, error) {
	return book.Parse("costs.yaml", []byte(strings.ReplaceAll(text, "HOST", fmt.Sprintf("%q", addr))), &book.Options{Builtins: headroom.ReadBuiltin})
}

// newFleet starts processes that share a ledger in a file. Base makes the connections
// of one.
func newFleet(t *testing.T, b *book.Book, processes int, base func() http.RoundTripper) []*process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	var all []*process
	for range processes {
		all = append(all, newProcess(t, b, path, nil, base()))
	}
	return all
}

// newProcess opens what one process has.
func newProcess(t testing.TB, b *book.Book, path string, clock quota.Clock, base http.RoundTripper) *process {
	t.Helper()
	p, stop, err := openProcess(b, path, clock, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func openProcess(b *book.Book, path string, clock quota.Clock, base http.RoundTripper) (p *process, stop func() error, err error) {
	store, err := sqlitestore.Open(context.Background(), path, &sqlitestore.Options{Clock: clock, Wait: time.Minute})
	if err != nil {
		return nil, nil, err
	}
	ledger, err := quota.New(b, store, &quota.Options{Clock: clock})
	if err != nil {
		return nil, nil, err
	}
	transport, err := meter.New(ledger, &meter.Options{Base: base, MaxWait: patience, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return &process{ledger, &http.Client{Transport: transport}}, store.Close, nil
}

// spent returns the units that the ledger has counted so far, by pool, and those of
// others apart.
func (p *process) spent(t testing.TB, upstream string) (ours, others map[string]int64) {
	t.Helper()
	all, err := p.ledger.View().Spend(context.Background(), quota.SpendQuery{Upstream: upstream}, quota.ByPool, quota.ByMethod)
	if err != nil {
		t.Fatal(err)
	}
	ours, others = map[string]int64{}, map[string]int64{}
	for _, s := range all {
		if s.Labels.Method == "others" {
			others[s.Pool.Name] += s.Units
		} else {
			ours[s.Pool.Name] += s.Units
		}
	}
	return ours, others
}

// ended reports whether an error only says that a run is over.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
