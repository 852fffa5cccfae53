package catalog

import "strings"

// outcome is what became of a video that was saved.
type outcome int

const (
	added outcome = iota
	changed
	same
)

// saveVideo saves a video, and returns its row. Its number never changes: the index
// and the charts know it by that.
func (t *tx) saveVideo(v *Video) (row int64, o outcome, err error) {
	tags, err := encodeTags(v.Tags)
	if err != nil {
		return 0, 0, err
	}
	var seconds any
	if v.Duration > 0 {
		seconds = int64(v.Duration.Seconds())
	}
	args := []any{
		v.ID, text(v.Title), text(v.Description), text(v.ChannelTitle), text(tags), text(v.ChannelID), micros(v.PublishedAt),
		seconds, text(v.Category), text(v.Live), text(v.Language), text(v.Thumbnail), v.Brief,
	}
	var brief, equal bool
	found, err := t.one("video_find", args, &row, &brief, &equal)
	switch {
	case err != nil:
	case !found:
		row, err = t.insert("video_add", append(args, t.now)...)
		o = added
	case v.Brief && !brief: // its description stays as old as it is
		o = same
	case equal:
		_, err = t.exec("video_touch", row, t.now)
		o = same
	default:
		_, err = t.exec("video_save", append(args, t.now)...)
		o = changed
	}
	if err == nil && v.Statistics != nil {
		err = t.saveStatistics(row, v.Statistics)
	}
	return row, o, err
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
