package pgcatalog

import (
	"context"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

// Search finds videos.
func (c *Catalog) Search(ctx context.Context, q catalog.Query) (catalog.Results, error) {
	a, err := catalog.NewAnswer(q)
	if err != nil || a.Limit <= 0 {
		return catalog.Results{}, err
	}
	part, whole, patterns := expressions(a.Phrases)
	rows, err := c.matches(ctx, part, patterns)
	if err != nil {
		return catalog.Results{}, err
	}
	a.Cut = len(rows) == catalog.MaxRanked
	err = c.each(ctx, func(scan catalog.Scan) error {
		var v catalog.Video
		var id int64
		if err := catalog.ScanVideo(scan, &v, &id); err != nil {
			return err
		}
		a.Add(id, v)
		return nil
	}, "search", rows, part, whole, a.Limit+1, q.Region, q.Since, append([]int64{}, a.Shown...))
	if err != nil {
		return catalog.Results{}, err
	}
	return a.Results(), nil
}

// matches returns the rows of the videos that were added last, of those that have the words:
// [catalog.MaxRanked] at most. It looks at the last rows first, and then at as many as probably
// have the rest.
func (c *Catalog) matches(ctx context.Context, query string, patterns []string) ([]int64, error) {
	all := []int64{}
	end := int64(0) // rows from here on were looked at
	err := c.each(ctx, func(scan catalog.Scan) error { return scan(&end) }, "search_end")
	looked := int64(0)
	for part := int64(firstPart); err == nil && end > 1 && len(all) < catalog.MaxRanked; {
		begin := max(1, end-part)
		missing := catalog.MaxRanked - len(all)
		err = c.each(ctx, func(scan catalog.Scan) error {
			var row int64
			err := scan(&row)
			all = append(all, row)
			return err
		}, "search_rows", query, patterns, begin, end, missing)
		looked += end - begin
		end = begin
		part = 16 * looked
		if found := int64(len(all)); found > 0 {
			part = min(part, looked*(catalog.MaxRanked-found)/found*5/4+firstPart)
		}
	}
	return all, err
}

// firstPart is how many rows are looked at first.
const firstPart = catalog.MaxRanked / 2

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
