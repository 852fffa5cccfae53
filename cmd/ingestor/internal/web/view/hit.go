package view

import "github.com/headroom-quota/headroom/ingest/catalog"

// Hit is a video that a search found.
type Hit struct {
	Video   Video          `json:"video"`
	URL     string         `json:"url"`
	Title   catalog.Marked `json:"title"`
	Channel catalog.Marked `json:"channel"`
	Snippet catalog.Marked `json:"snippet"`
}

// Hits are the results of a search, the best first.
type Hits struct {
	Hits   []Hit  `json:"hits"`
	Cursor string `json:"cursor,omitempty"` // asks for the next hits; empty if there are none
	Cut    bool   `json:"cut,omitempty"`    // whether only the last of the videos with these words were looked at
}

// Found returns the results of a search for JSON.
func Found(r catalog.Results) Hits {
	v := Hits{Hits: []Hit{}, Cursor: r.Cursor, Cut: r.Cut}
	for _, h := range r.Hits {
		v.Hits = append(v.Hits, Hit{OneVideo(h.Video), VideoURL(h.Video.ID), PlainMarked(h.Title), PlainMarked(h.Channel), PlainMarked(h.Snippet)})
	}
	return v
}
