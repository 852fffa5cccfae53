package pages

import (
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// action is a link to an action.
type action struct{ Name, Path string }

// actionsOf returns the actions on a pool.
func (s *state) actionsOf(*quota.Usage) []action { return nil }

// resets returns the actions on the work of a run.
func (s *state) resets(*catalog.RunRecord) []action { return nil }
