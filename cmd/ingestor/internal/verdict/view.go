package verdict

import (
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// Standing is what is left of the pools, with the verdict, in JSON.
type Standing struct {
	Pools   []view.Pool `json:"pools"`
	Verdict *Said       `json:"verdict"` // nil without jobs, or without a catalog
}

// Said is a verdict for programs and terminals.
type Said struct {
	Level view.Level `json:"level"` // good, warn or bad
	Word  string     `json:"word"`
	Says  string     `json:"says"`
	More  []string   `json:"more"`
	Notes []SaidNote `json:"notes"`
}

// SaidNote is a note for programs and terminals.
type SaidNote struct {
	Level view.Level `json:"level"`
	Says  string     `json:"says"`
}

// String returns the verdict in one line, without its notes.
func (s *Said) String() string {
	return s.Word + ": " + strings.Join(append([]string{s.Says}, s.More...), ". ")
}

// Said returns the verdict for programs and terminals. Its lists are never null.
func (v *Verdict) Said() *Said {
	s := &Said{Level: v.Level, Word: v.Word, Says: v.Says.Still(), More: []string{}, Notes: []SaidNote{}}
	for _, m := range v.More {
		s.More = append(s.More, m.Still())
	}
	for _, n := range v.Notes {
		s.Notes = append(s.Notes, SaidNote{n.Level, n.Says.Still()})
	}
	return s
}
