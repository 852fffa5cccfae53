package settings

import (
	"errors"
	"maps"
	"slices"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/ingest"
)

var errTargetName = errors.New("the name of a target has up to 40 lower-case letters, digits, - and _")

// checkNotify checks the targets of notices, and the dead man's switch.
func (s *Settings) checkNotify() (faults []ingest.Fault) {
	for _, name := range slices.Sorted(maps.Keys(s.Notify)) {
		path := "notify." + name
		if !CallerName.MatchString(name) {
			faults = append(faults, ingest.Fault{Path: path, Err: errTargetName})
		}
		t := s.Notify[name]
		found := t.Check()
		for _, field := range slices.Sorted(maps.Keys(found)) {
			at := path
			if field != "" {
				at += "." + field
			}
			faults = append(faults, ingest.Fault{Path: at, Err: found[field]})
		}
	}
	if err := notify.CheckPing(s.Ping); err != nil {
		faults = append(faults, ingest.Fault{Path: "ping", Err: err})
	}
	return faults
}
