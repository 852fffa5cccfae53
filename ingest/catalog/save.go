package catalog

import (
	"fmt"
	"strings"
)

// A plan is what is to become of a video.
type plan struct {
	args  []any // its columns
	row   int64 // 0: it is new
	keep  bool  // the catalog knows more of it
	equal bool
}

// saveVideos saves the videos of a page, counts what became of them, and returns their
// rows. The row of a video never changes: the index and the charts know it by that.
func (t *tx) saveVideos(videos []Video, s *Saved) ([]int64, error) {
	plans := make([]plan, len(videos))
	first := map[string]int{} // the same video may stand on a page twice
	var stale, indexed []int64
	for i := range videos {
		if _, ok := first[videos[i].ID]; ok {
			continue
		}
		first[videos[i].ID] = i
		if err := t.planVideo(&videos[i], &plans[i]); err != nil {
			return nil, fmt.Errorf("video %q: %w", videos[i].ID, err)
		}
		if p := &plans[i]; p.row != 0 && !p.keep && !p.equal {
			stale = append(stale, p.row)
		}
	}
	if err := t.index("index_remove", stale); err != nil { // while the rows have the old text
		return nil, err
	}
	rows := make([]int64, len(videos))
	for i := range videos {
		v := &videos[i]
		if n := first[v.ID]; n < i {
			rows[i] = rows[n]
			continue
		}
		var changed bool
		var err error
		if rows[i], changed, err = t.saveVideo(v, &plans[i], s); err != nil {
			return nil, fmt.Errorf("video %q: %w", v.ID, err)
		}
		if changed {
			indexed = append(indexed, rows[i])
		}
	}
	return rows, t.index("index_add", indexed)
}

// planVideo finds out what is to become of a video.
func (t *tx) planVideo(v *Video, p *plan) error {
	tags, err := encodeTags(v.Tags)
	if err != nil {
		return err
	}
	var seconds any
	if v.Duration > 0 {
		seconds = int64(v.Duration.Seconds())
	}
	p.args = []any{
		v.ID, text(v.Title), text(v.Description), text(v.ChannelTitle), text(tags), text(v.ChannelID), micros(v.PublishedAt),
		seconds, text(v.Category), text(v.Live), text(v.Language), text(v.Thumbnail), v.Brief,
	}
	var brief bool
	_, err = t.one("video_find", p.args, &p.row, &brief, &p.equal)
	p.keep = p.row != 0 && v.Brief && !brief
	return err
}

// saveVideo does what was planned, and reports whether there are other words to index.
func (t *tx) saveVideo(v *Video, p *plan, s *Saved) (row int64, changed bool, err error) {
	row = p.row
	switch {
	case row == 0:
		s.New++
		changed = true
		row, err = t.insert("video_add", append(p.args, t.now)...)
	case p.keep: // its description stays as old as it is
		s.Unchanged++
	case p.equal:
		s.Unchanged++
		_, err = t.exec("video_touch", row, t.now)
	default:
		s.Updated++
		changed = true
		_, err = t.exec("video_save", append(p.args, t.now)...)
	}
	if err == nil && v.Statistics != nil {
		s.Statistics++
		err = t.saveStatistics(row, v.Statistics)
	}
	return row, changed, err
}

// removeVideos deletes videos by their rows, and by references all there is of them.
func (t *tx) removeVideos(rows []int64) error {
	if len(rows) == 0 {
		return nil
	}
	if err := t.index("index_remove", rows); err != nil {
		return err
	}
	_, err := t.exec("video_remove", list(rows))
	return err
}

// index puts the words of rows into the index, or takes them out.
func (t *tx) index(s statement, rows []int64) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := t.exec(s, list(rows))
	return err
}

// list returns rows as a JSON array, which is how SQLite takes many.
func list(rows []int64) string {
	return strings.ReplaceAll(fmt.Sprint(rows), " ", ",")
}

func (t *tx) saveStatistics(row int64, s *Statistics) error {
	_, err := t.exec("statistics_save", row, t.now, s.Views, s.Likes, s.Comments)
	return err
}

func (t *tx) saveChannel(ch *Channel) error {
	_, err := t.exec("channel_save", ch.ID, t.now, micros(ch.PublishedAt), text(ch.Title), text(ch.Handle),
		text(ch.Country), text(ch.Uploads), text(ch.Description))
	return err
}

// text returns a text that SQLite can hold: what is no UTF-8 is marked as that.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
