package verdict

import (
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

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
