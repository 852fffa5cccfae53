package pgcatalog

import (
	"context"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

// ranked is the largest number of matches whose rank is computed. Of more, the rest is not
// found: such a query names no video.
const ranked = 3000

// Search finds videos.
func (c *Catalog) Search(ctx context.Context, q catalog.Query) (catalog.Results, error) {
	a, err := catalog.NewAnswer(q)
	if err != nil || a.Limit <= 0 {
		return catalog.Results{}, err
	}
	shown := a.Shown
	if shown == nil {
		shown = []int64{}
	}
	part, whole, patterns := expressions(a.Phrases)
	err = c.each(ctx, func(scan func(...any) error) error {
		var v catalog.Video
		var id int64
		if err := scanVideo(scan, &v, &id); err != nil {
			return err
		}
		a.Add(id, v)
		return nil
	}, sql("search"), part, whole, ranked, a.Limit+1, valid(q.Region), micros(q.Since), shown, patterns)
	if err != nil {
		return catalog.Results{}, err
	}
	return a.Results(), nil
}

// Expression returns phrases in the query language of PostgreSQL.
func Expression(all []words.Phrase) string {
	part, _, _ := expressions(all)
	return part
}

// expressions returns phrases in the query language of PostgreSQL, with prefixes and for whole
// words only, and as patterns for videos without positions. Words consist of letters and
// digits, so they need no escaping between quotes.
func expressions(all []words.Phrase) (part, whole string, patterns []string) {
	var parts, wholes []string
	for _, p := range all {
		var cut, quoted []string
		for _, w := range p.Words {
			cut = append(cut, cutWord(w))
			quoted = append(quoted, "'"+cutWord(w)+"'")
		}
		prefix, space := "", " "
		if p.Prefix {
			prefix, space = ":*", ""
		}
		sequence := strings.Join(quoted, " <-> ")
		wholes = append(wholes, "("+sequence+")")
		sequence += prefix
		if len(quoted) > 1 {
			sequence += " | " + overlong + " & " + strings.Join(quoted, " & ") + prefix
		}
		parts = append(parts, "("+sequence+")")
		patterns = append(patterns, "% "+strings.Join(cut, " ")+space+"%")
	}
	return strings.Join(parts, " & "), strings.Join(wholes, " & "), patterns
}
