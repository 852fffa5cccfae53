package builtin_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/book"
)

// The terms of YouTube forbid to get around a quota with several projects, so no book can let its calls spill.
func TestYouTubeNeverSpills(t *testing.T) {
	const other = "  other: {hosts: [other.example.com], %s pools: {units: {quota: 1, windows: [{per: day}]}}, methods: {list: {route: GET /youtube/v3/videos, cost: 1}}}\n"
	for _, builtin := range []string{"builtin", "builtin/youtube-2025"} {
		for name, text := range map[string]string{
			"from":       "  youtube: {spill: [other], spill_methods: [videos.list]}\n" + strings.Replace(other, "%s", "", 1),
			"to":         strings.Replace(other, "%s", "spill: [youtube],", 1),
			"account":    "  youtube: {accounts: {default: {}, second: {}}, spill: [youtube@second]}\n",
			"removed":    "  youtube: {no_spill: null}\n",
			"both":       "  youtube: {no_spill: null, accounts: {default: {}, second: {}}, spill: [youtube@second]}\n",
			"with words": "  youtube: {no_spill: it is fine, accounts: {default: {}, second: {}}, spill: [youtube@second]}\n",
		} {
			t.Run(builtin+" "+name, func(t *testing.T) {
				_, err := book.Parse("costs.yaml", []byte("extends: "+builtin+"\nupstreams:\n"+text), &book.Options{Builtins: headroom.ReadBuiltin})
				if err == nil {
					t.Fatal("the book was accepted")
				}
				if why := err.Error(); !strings.HasPrefix(why, "costs.yaml:3:") || name != "with words" && !strings.Contains(why, "https://developers.google.com/youtube/terms/developer-policies") {
					t.Errorf("the error does not say where and why: %v", err)
				}
			})
		}
	}
}
