package pages

import (
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// Pages speak with the words of the verdict.
type (
	level    = view.Level
	moment   = verdict.Moment
	sentence = verdict.Sentence
	note     = verdict.Note
	job      = verdict.Job
)

const (
	good = view.Good
	warn = view.Warn
	bad  = view.Bad
)

var (
	say   = verdict.Say
	span  = verdict.Span
	count = verdict.Count
	list  = verdict.List

	period    = verdict.Period
	chartName = verdict.ChartName
	workName  = verdict.WorkName
)
