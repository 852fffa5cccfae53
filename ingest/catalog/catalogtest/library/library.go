// Package library makes videos for benchmarks.
package library

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Library makes videos whose words are as common as words are: the nth most common
// one about a quarter as often, per step, as its rank says. One video in five is
// Japanese, without spaces.
type Library struct {
	rng   *rand.Rand
	zipf  *rand.Zipf
	Words []string // the most common first
	Kanji []string
}

// New returns a library whose seed decides all.
func New(seed uint64) *Library {
	l := &Library{rng: rand.New(rand.NewPCG(seed, 0))}
	const many = 50_000
	l.zipf = rand.NewZipf(l.rng, 1.07, 3, many-1)
	syllables := strings.Fields("ba be bi bo da de di do fa fe ga go ka ke ki la le li lo ma me mi mo na ne ni no pa pe ra re ri ro sa se si so ta te ti to va ve é è ü ö ñ ão ck st nt ll er en ing")
	for range many {
		var b strings.Builder
		for range 1 + l.rng.IntN(4) {
			b.WriteString(syllables[l.rng.IntN(len(syllables))])
		}
		l.Words = append(l.Words, b.String())
		b.Reset()
		for range 1 + l.rng.IntN(3) {
			b.WriteRune(rune(0x4E00 + l.rng.IntN(2000)))
		}
		l.Kanji = append(l.Kanji, b.String())
	}
	return l
}

// Text returns n words.
func (l *Library) Text(n int, japanese bool) string {
	var b strings.Builder
	for i := range n {
		w := l.zipf.Uint64()
		switch {
		case japanese:
			b.WriteString(l.Kanji[w])
			if i%8 == 7 {
				b.WriteString("の、")
			}
		default:
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(l.Words[w])
		}
	}
	return b.String()
}

// Page returns the nth page of fifty videos.
func (l *Library) Page(n int) []catalog.Video {
	all := make([]catalog.Video, 50)
	for i := range all {
		ja := l.rng.IntN(5) == 0
		views := int64(l.rng.IntN(1e6))
		likes := views / 30
		all[i] = catalog.Video{
			ID: fmt.Sprintf("%08x%03d", l.rng.Uint32(), (n*50+i)%1000), ChannelID: fmt.Sprintf("UC%020d", l.rng.IntN(5000)),
			ChannelTitle: l.Text(2, ja), Title: l.Text(4+l.rng.IntN(8), ja), Description: l.Text(40+l.rng.IntN(200), ja),
			Tags: []string{l.Text(1, ja), l.Text(2, ja), l.Text(1, ja)}, Category: "10", Live: "none", Language: "en",
			Thumbnail: "https://i.ytimg.com/vi/0123456789a/hqdefault.jpg", Duration: time.Duration(60+l.rng.IntN(600)) * time.Second,
			PublishedAt: time.Unix(1_700_000_000+int64(l.rng.IntN(90_000_000)), 0),
			Statistics:  &catalog.Statistics{Views: &views, Likes: &likes},
		}
	}
	return all
}
