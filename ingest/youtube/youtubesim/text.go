package youtubesim

import (
	"strconv"
	"strings"
	"sync"
)

// word returns the channel's topic in its language.
func (c *channel) word() string { return c.language.topics[c.category*topicsEach+c.topic] }

func pick(from []string, r uint64) string { return from[r%uint64(len(from))] }

// title returns the title of the channel. Its number makes it unique and lets the handle
// find it.
func (c *channel) title() string {
	return c.word() + " " + pick(c.language.phrases, c.key>>8)
}

// handle returns the customUrl of the channel, which ends with its number.
func (c *channel) handle() string {
	return "@" + languages[0].topics[c.category*topicsEach+c.topic] + "." + c.language.code + strconv.Itoa(c.index)
}

// wellKnown is a handle of the real upstream that documentation uses. Here it leads to a
// simulated channel, so that examples work against both.
const wellKnown = "@GoogleDevelopers"

// findHandle finds a channel by its handle, with or without the @.
func (w world) findHandle(handle string) (int, bool) {
	handle = "@" + strings.TrimPrefix(handle, "@")
	if strings.EqualFold(handle, wellKnown) {
		return 0, true
	}
	digits := strings.TrimLeft(handle[strings.LastIndexByte(handle, '.')+1:], "abcdefghijklmnopqrstuvwxyz")
	index, err := strconv.Atoi(digits)
	if err != nil || index < 0 || index >= channels {
		return 0, false
	}
	c := w.channel(index)
	return index, c.handle() == handle
}

// appendTitle writes the video's title: its topic, a phrase, and its number.
func (v *video) appendTitle(b []byte) []byte {
	l, r := v.channel.language, v.roll(factTitle)
	if r>>32%40 == 0 {
		l = &languages[r>>40%uint64(len(languages))] // a guest
	}
	switch r % 3 {
	case 0:
		b = append(b, v.channel.word()...)
		b = append(b, ": "...)
		b = append(b, pick(l.phrases, r>>8)...)
	case 1:
		b = append(b, pick(l.phrases, r>>8)...)
		b = append(b, " | "...)
		b = append(b, v.channel.word()...)
	default:
		b = append(b, pick(l.phrases, r>>8)...)
		b = append(b, ' ')
		b = append(b, v.channel.word()...)
		b = append(b, " – "...)
		b = append(b, pick(l.phrases, r>>16)...)
	}
	b = append(b, " #"...)
	return strconv.AppendInt(b, int64(v.number+1), 10)
}

// appendDescription writes a few lines, or sometimes none.
func (v *video) appendDescription(b []byte) []byte {
	l, r := v.channel.language, v.roll(factDescription)
	if r%15 == 0 {
		return b
	}
	for i := range 2 + r>>8%4 {
		b = append(b, pick(l.about, r>>(16+i*4))...)
		b = append(b, '\n')
		b = append(b, pick(l.phrases, r>>(20+i*4))...)
		b = append(b, "\n\n"...)
	}
	b = append(b, "https://example.com/"...)
	b = append(b, v.channel.language.code...)
	b = append(b, "?a=1&b=2\n#"...)
	return append(b, strings.ReplaceAll(v.channel.word(), " ", "")...)
}

// tags returns the tags of the video; a third have none.
func (v *video) tags() []string {
	l, r := v.channel.language, v.roll(factTags)
	if r%3 == 0 {
		return nil
	}
	tags := make([]string, 0, 8)
	tags = append(tags, v.channel.word())
	for i := range r >> 8 % 6 {
		tags = append(tags, pick(l.topics[:], r>>(16+i*5)))
	}
	return tags
}

// lowered holds the words of all languages that find topics.
var lowered = sync.OnceValue(func() *[len(languages)][len(categories) * topicsEach]string {
	var all [len(languages)][len(categories) * topicsEach]string
	for l := range languages {
		for i, word := range languages[l].topics {
			all[l][i] = strings.ToLower(word)
		}
	}
	return &all
})

// topicOf returns the topic of a search: one whose word, in any language, is in the query,
// or else one by the hash of the query, since the real API also finds something for nearly
// every query.
func (w world) topicOf(q string) (category, topic int) {
	q = strings.ToLower(q)
	best, length := -1, 0
	for _, words := range lowered() {
		for i, word := range words {
			if len(word) > length && strings.Contains(q, word) {
				best, length = i, len(word)
			}
		}
	}
	if best < 0 {
		best = int(w.hashText(ofQuery, q) % uint64(len(categories)*topicsEach))
	}
	return best / topicsEach, best % topicsEach
}
