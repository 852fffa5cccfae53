package youtube

import (
	"bytes"
	"regexp"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	sdk "google.golang.org/api/youtube/v3"
)

var (
	videoParts   = []string{"snippet", "contentDetails", "statistics"}
	channelParts = []string{"snippet", "contentDetails"}
)

// videos are the items of a videos.list, with the counts that its answer has.
func videos(items []*sdk.Video, answer *bytes.Buffer) ([]catalog.Video, error) {
	counts, err := statistics(answer)
	if err != nil {
		return nil, err
	}
	all := make([]catalog.Video, 0, len(items))
	for i, item := range items {
		if item == nil || item.Id == "" || item.Snippet == nil {
			continue
		}
		s := item.Snippet
		v := catalog.Video{
			ID: item.Id, ChannelID: s.ChannelId, ChannelTitle: s.ChannelTitle,
			Title: s.Title, Description: s.Description, Tags: s.Tags, Category: s.CategoryId,
			Live: s.LiveBroadcastContent, Language: s.DefaultLanguage, Thumbnail: thumbnail(s.Thumbnails),
			PublishedAt: moment(s.PublishedAt), Statistics: counts[i],
		}
		if v.Language == "" {
			v.Language = s.DefaultAudioLanguage
		}
		if v.Statistics != nil {
			v.Statistics.VideoID = v.ID
		}
		if item.ContentDetails != nil {
			v.Duration = duration(item.ContentDetails.Duration)
		}
		all = append(all, v)
	}
	return all, nil
}

// channels are the items of a channels.list.
func channels(items []*sdk.Channel) []catalog.Channel {
	all := make([]catalog.Channel, 0, len(items))
	for _, item := range items {
		if item == nil || item.Id == "" || item.Snippet == nil {
			continue
		}
		s := item.Snippet
		ch := catalog.Channel{
			ID: item.Id, Title: s.Title, Description: s.Description,
			Handle: s.CustomUrl, Country: s.Country, PublishedAt: moment(s.PublishedAt),
		}
		if d := item.ContentDetails; d != nil && d.RelatedPlaylists != nil {
			ch.Uploads = d.RelatedPlaylists.Uploads
		}
		all = append(all, ch)
	}
	return all
}

// thumbnail is the picture that fits a list best.
func thumbnail(t *sdk.ThumbnailDetails) string {
	if t == nil {
		return ""
	}
	for _, one := range []*sdk.Thumbnail{t.Medium, t.High, t.Standard, t.Maxres, t.Default} {
		if one != nil && one.Url != "" {
			return one.Url
		}
	}
	return ""
}

// moment reads a time; what is none is zero.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// iso8601 is a duration. A digit more, and it would not fit.
var iso8601 = regexp.MustCompile(`^P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?$`)

// duration reads what may be P1DT2H3M4S; what is none is zero, and so is P0D.
func duration(s string) (d time.Duration) {
	const day = 24 * time.Hour
	m := iso8601.FindStringSubmatch(s)
	if m == nil {
		return 0
	}
	for i, unit := range []time.Duration{7 * day, day, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi(m[1+i]) // what is not there is 0
		d += time.Duration(n) * unit
	}
	return d
}
