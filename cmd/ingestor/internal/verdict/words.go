package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Moment is a time for people and for programs.
type Moment struct{ ISO, Text, Relative string }

// Part is a part of a sentence: text or a time.
type Part struct {
	Text string
	At   *Moment
}

// Sentence is text in which times are marked as such.
type Sentence []Part

// Say makes a sentence of strings, moments and other sentences.
func Say(parts ...any) Sentence {
	all := make(Sentence, 0, len(parts))
	for _, p := range parts {
		switch p := p.(type) {
		case Moment:
			all = append(all, Part{At: &p})
		case Sentence:
			all = append(all, p...)
		default:
			all = append(all, Part{Text: fmt.Sprint(p)})
		}
	}
	return all
}

// String returns the sentence as plain text.
func (s Sentence) String() string { return s.text(true) }

// Still returns the sentence as plain text that stays the same: no time says how far it is from now.
func (s Sentence) Still() string { return s.text(false) }

func (s Sentence) text(relative bool) string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.Text)
		if p.At == nil {
			continue
		}
		b.WriteString(p.At.Text)
		if relative && p.At.Relative != "" {
			b.WriteString(" (" + p.At.Relative + ")")
		}
	}
	return b.String()
}

// Typed returns the sentence with these flags behind the command that it names, unless that has some.
func (s Sentence) Typed(flags string) Sentence {
	_, command, names := strings.Cut(s.Still(), ": ingestor ")
	if !names || flags == "" || strings.Contains(command, flags) || strings.Contains(command, " --ledger ") || strings.Contains(command, " --config ") {
		return s
	}
	return append(slices.Clip(s), Part{Text: flags})
}

// Moment returns a time as people read it at the time of the page.
func (s *State) Moment(t time.Time) Moment {
	t = t.UTC()
	return Moment{ISO: t.Format(time.RFC3339), Text: s.Stamp(t), Relative: relative(t.Sub(s.Now))}
}

// Clock returns a time without its distance from now.
func (s *State) Clock(t time.Time) Moment {
	m := s.Moment(t)
	m.Relative = ""
	return m
}

// Stamp writes a time, with its day if that is not today.
func (s *State) Stamp(t time.Time) string {
	const clock = "15:04 UTC"
	t = t.UTC()
	switch today := s.Now.UTC().Truncate(24 * time.Hour); t.Truncate(24 * time.Hour).Sub(today) {
	case 0:
		return t.Format(clock)
	case 24 * time.Hour:
		return t.Format(clock) + " tomorrow"
	case -24 * time.Hour:
		return t.Format(clock) + " yesterday"
	}
	if t.Year() != s.Now.UTC().Year() {
		return t.Format(clock + " on 2 January 2006")
	}
	return t.Format(clock + " on 2 January")
}

func relative(d time.Duration) string {
	switch {
	case d > -30*time.Second && d < 30*time.Second:
		return "now"
	case d < 0:
		return Span(-d) + " ago"
	}
	return "in " + Span(d)
}

// Span writes a duration with at most two units.
func Span(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Second:
		return "under 1 s"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d >= 10*time.Hour && d < 48*time.Hour:
		return strconv.Itoa(int(d.Round(time.Hour)/time.Hour)) + " h"
	case d < 10*time.Hour:
		text := strconv.Itoa(int(d/time.Hour)) + " h"
		if m := int(d % time.Hour / time.Minute); m > 0 {
			text += " " + strconv.Itoa(m) + " min"
		}
		return text
	}
	return Count(int64(d/(24*time.Hour)), "day")
}

// Count writes a number of things. Without their plural it adds an s.
func Count(n int64, thing string, things ...string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case len(things) > 0:
		return view.Number(n) + " " + things[0]
	}
	return view.Number(n) + " " + thing + "s"
}

// List joins names with "and"; of many it names the first five.
func List(names []string) string {
	const most = 5
	if n := len(names); n > most {
		return strings.Join(names[:most], ", ") + " and " + view.Number(int64(n-most)) + " more"
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// Zones are the names that people have for time zones.
var Zones = map[string]string{
	"America/Los_Angeles": "Pacific", "America/Denver": "Mountain", "America/Chicago": "Central", "America/New_York": "Eastern", "UTC": "UTC",
}

// Period says which time a window covers: "in 24 h", "since midnight Pacific".
func Period(w *quota.WindowUsage) string {
	switch {
	case w.Spec.InFlight():
		return "at once"
	case w.Spec.Drains():
		return "in " + w.Window
	case !w.Spec.Calendar():
		return "in " + Span(w.Spec.Length())
	case w.Spec.Period != window.Day:
		return "this " + string(w.Spec.Period)
	}
	name := w.Spec.Zone.String()
	if short, ok := Zones[name]; ok {
		return "since midnight " + short
	}
	return "since midnight in " + strings.ReplaceAll(name[strings.LastIndexByte(name, '/')+1:], "_", " ")
}

// categories are the names of YouTube's video categories.
var categories = map[string]string{
	"1": "Film", "2": "Autos", "10": "Music", "15": "Pets", "17": "Sports", "18": "Short films", "19": "Travel", "20": "Gaming", "21": "Vlogs",
	"22": "People", "23": "Comedy", "24": "Entertainment", "25": "News", "26": "Style", "27": "Education", "28": "Science", "29": "Activism",
}

// ChartName names a chart for people: "DE", or "DE, Music".
func ChartName(region, category string) string {
	switch name := categories[category]; {
	case category == "":
		return region
	case name != "":
		return region + ", " + name
	}
	return region + ", category " + category
}

// WorkName names a unit of work for people: "DE, Music" for DE/10.
func WorkName(work string) string {
	region, rest, _ := strings.Cut(view.Plain(work), "/")
	switch {
	case rest == "" || len(region) != 2: // it is no region
		return view.Plain(work)
	case categories[rest] != "":
		return region + ", " + categories[rest]
	}
	return region + ", " + rest
}
