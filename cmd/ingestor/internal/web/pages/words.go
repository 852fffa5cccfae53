package pages

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// moment is a time for people and for programs.
type moment struct{ ISO, Text, Relative string }

// part is a part of a sentence: text or a time.
type part struct {
	Text string
	At   *moment
}

// sentence is text in which times are marked as such.
type sentence []part

// say makes a sentence of strings, moments and other sentences.
func say(parts ...any) sentence {
	all := make(sentence, 0, len(parts))
	for _, p := range parts {
		switch p := p.(type) {
		case moment:
			all = append(all, part{At: &p})
		case sentence:
			all = append(all, p...)
		default:
			all = append(all, part{Text: fmt.Sprint(p)})
		}
	}
	return all
}

// String returns the sentence as plain text.
func (s sentence) String() string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.Text)
		if p.At != nil {
			b.WriteString(p.At.Text)
			if p.At.Relative != "" {
				b.WriteString(" (" + p.At.Relative + ")")
			}
		}
	}
	return b.String()
}

// moment returns a time as people read it at the time of the page.
func (s *state) moment(t time.Time) moment {
	t = t.UTC()
	return moment{ISO: t.Format(time.RFC3339), Text: s.stamp(t), Relative: relative(t.Sub(s.now))}
}

// clock returns a time without its distance from now.
func (s *state) clock(t time.Time) moment {
	m := s.moment(t)
	m.Relative = ""
	return m
}

// stamp writes a time, with its day if that is not today.
func (s *state) stamp(t time.Time) string {
	const clock = "15:04 UTC"
	t = t.UTC()
	switch today := s.now.UTC().Truncate(24 * time.Hour); t.Truncate(24 * time.Hour).Sub(today) {
	case 0:
		return t.Format(clock)
	case 24 * time.Hour:
		return t.Format(clock) + " tomorrow"
	case -24 * time.Hour:
		return t.Format(clock) + " yesterday"
	}
	if t.Year() != s.now.UTC().Year() {
		return t.Format(clock + " on 2 January 2006")
	}
	return t.Format(clock + " on 2 January")
}

// relative says how far a time is from now.
func relative(d time.Duration) string {
	switch {
	case d > -30*time.Second && d < 30*time.Second:
		return "now"
	case d < 0:
		return span(-d) + " ago"
	}
	return "in " + span(d)
}

// span writes a duration with at most two units.
func span(d time.Duration) string {
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
	return count(int64(d/(24*time.Hour)), "day")
}

// count writes a number of things. Without their plural it adds an s.
func count(n int64, thing string, things ...string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case len(things) > 0:
		return view.Number(n) + " " + things[0]
	}
	return view.Number(n) + " " + thing + "s"
}

// list joins names with "and"; of many it names the first five.
func list(names []string) string {
	const most = 5
	if n := len(names); n > most {
		return strings.Join(names[:most], ", ") + " and " + view.Number(int64(n-most)) + " more"
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}
