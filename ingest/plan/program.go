package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// A plan runs no programs. A job of kind command spends what it may spend, or else what it
// has spent, from the pool of the cheapest calls. Which calls its program makes is unknown.

// assumed is what a run of a program is taken to spend.
type assumed struct {
	units  int64 // 0: unknown, or nothing
	source string
}

// assumedMethod is the method whose pool programs are taken to spend from.
const assumedMethod = "videos.list"

// spendOf returns what a run of a job's program is taken to spend.
func (s *scenario) spendOf(j *ingest.Job) assumed {
	if len(j.Upstreams) > 0 && !slices.Contains(j.Upstreams, upstream) {
		return assumed{}
	}
	for work, record := range s.options.Records {
		if work.Job == j.Name && record.Units > 0 && (j.MaxUnits == 0 || record.Units < j.MaxUnits) {
			return assumed{record.Units, "what its earlier runs spent"}
		}
	}
	return assumed{j.MaxUnits, "its max_units"}
}

// by spends the units, or what is left of them.
func (a assumed) by(ctx context.Context, l *quota.Ledger, j *ingest.Job) error {
	pool := onlyPool(l.Book().Upstreams[upstream], assumedMethod)
	if a.units == 0 || pool == "" {
		return nil
	}
	call := quota.Call{Upstream: upstream, Account: j.Account, Method: assumedMethod, Class: j.Class, Job: j.Name, Estimate: quota.Units{pool: a.units}}
	_, err := l.Reserve(ctx, call)
	var refused *quota.RefusedError
	if errors.As(err, &refused) && !refused.Blocked && refused.Remaining > 0 {
		call.Estimate[pool] = refused.Remaining
		_, rest := l.Reserve(ctx, call)
		if !errors.As(rest, &refused) {
			return cmp.Or(rest, err)
		}
	}
	return err
}

// programNotes say what a plan takes for granted of programs.
func (s *scenario) programNotes(book *quota.Book) []string {
	notes := []string{}
	for _, j := range s.config.List() {
		if !j.Kind.Runs() {
			continue
		}
		pool := onlyPool(book.Upstreams[upstream], assumedMethod)
		switch a := s.spendOf(j); {
		case a.units > 0 && pool != "":
			notes = append(notes, fmt.Sprintf("job %s: its program is taken to spend %d units of %s/%s a run, %s", j.Name, a.units, upstream, pool, a.source))
		case len(j.Upstreams) > 0 && !slices.Contains(j.Upstreams, upstream):
			notes = append(notes, fmt.Sprintf("job %s: a plan covers %s only, which its program may not call", j.Name, upstream))
		default:
			notes = append(notes, fmt.Sprintf("job %s: what its program spends is unknown, so the plan leaves it out\nTo bound it, set max_units", j.Name))
		}
	}
	return notes
}
