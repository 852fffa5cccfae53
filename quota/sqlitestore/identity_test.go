package sqlitestore

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

// patient waits for a busy file as long as a busy machine needs.
var patient = &Options{Wait: time.Minute}

// A process opens a ledger as soon as it is let, and says its identity.
func init() {
	children["identify"] = func(path string, begin func() bool, out io.Writer) error {
		begin()
		s, err := Open(context.Background(), path, patient)
		if err != nil {
			return err
		}
		defer s.Close()
		id, err := s.Identity(context.Background(), "api", "default")
		fmt.Fprintln(out, id)
		return err
	}
}

// Processes that meet at first use give a ledger one identity.
func TestProcessesMakeOneIdentity(t *testing.T) {
	for range scaled(3, 50) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		var all []*childtest.Child
		for range 4 {
			c := childtest.Run(t, "identify", path)
			if c.Line() != "ready" {
				t.Fatal("a process does not begin")
			}
			all = append(all, c)
		}
		for _, c := range all {
			c.Begin()
		}
		first := all[0].Line()
		for _, c := range all[1:] {
			if id := c.Line(); id != first || len(id) != 32 {
				t.Errorf("two identities: %q and %q", first, id)
			}
		}
	}
}
