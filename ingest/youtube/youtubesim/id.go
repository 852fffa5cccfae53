package youtubesim

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
)

// An id encodes its object: the id of a video is its channel and its number there, shuffled
// with the seed. So any valid id is found without a table, and an invented one is not.

const (
	numberBits  = 24 // of a video in its channel
	channelBits = 20
	checkBits   = 64 - numberBits - channelBits
)

// mix64 spreads every bit of x over all of the result (the finish of SplitMix64).
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// shuffle and unshuffle are each other's inverse: x ^= x>>32 undoes itself, and an
// odd factor has an inverse.
const (
	factor1, inverse1 = 0x9e3779b97f4a7c15, 0xf1de83e19937733d
	factor2, inverse2 = 0xd1342543de82ef95, 0x572b5ee77a54e3bd
)

func (w world) shuffle(x uint64) uint64 {
	x = (x ^ w.shift) * factor1
	x ^= x >> 32
	x *= factor2
	return x ^ x>>32
}

func (w world) unshuffle(x uint64) uint64 {
	x ^= x >> 32
	x *= inverse2
	x ^= x >> 32
	return x*inverse1 ^ w.shift
}

func encode64(x uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], x)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func decode64(s string) (uint64, bool) {
	var b [9]byte // Decode may write one byte more
	if len(s) != 11 {
		return 0, false
	}
	if n, err := base64.RawURLEncoding.Strict().Decode(b[:], []byte(s)); err != nil || n != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[:8]), true
}

func (w world) videoID(channel, number int) string {
	x := uint64(channel)<<numberBits | uint64(number)
	return encode64(w.shuffle(w.hash(ofVideoID, x, 0)>>(64-checkBits)<<(64-checkBits) | x))
}

// findVideo returns the video of an id, which may not exist yet or any more.
func (w world) findVideo(id string) (channel, number int, ok bool) {
	x, ok := decode64(id)
	if !ok {
		return 0, 0, false
	}
	x = w.unshuffle(x)
	named := x << checkBits >> checkBits
	if w.hash(ofVideoID, named, 0)>>(64-checkBits) != x>>(64-checkBits) {
		return 0, 0, false
	}
	channel, number = int(named>>numberBits), int(named&(1<<numberBits-1))
	return channel, number, channel < channels
}

// channelID is UC and 22 characters; the playlist of its uploads is UU and the
// same.
func (w world) channelID(channel int) string { return "UC" + w.channelTail(channel) }

func (w world) uploadsID(channel int) string { return "UU" + w.channelTail(channel) }

func (w world) channelTail(channel int) string {
	var b [16]byte
	x := w.shuffle(uint64(channel))
	binary.BigEndian.PutUint64(b[:8], x)
	binary.BigEndian.PutUint64(b[8:], w.hash(ofChannelID, x, 0))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (w world) findChannel(id string) (int, bool) { return w.findTail(id, "UC") }

func (w world) findUploads(id string) (int, bool) { return w.findTail(id, "UU") }

func (w world) findTail(id, prefix string) (int, bool) {
	if len(id) != 24 || id[:2] != prefix {
		return 0, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(id[2:])
	if err != nil || len(b) != 16 {
		return 0, false
	}
	x := w.unshuffle(binary.BigEndian.Uint64(b))
	if x >= uint64(channels) || w.channelTail(int(x)) != id[2:] {
		return 0, false
	}
	return int(x), true
}

// Knows reports whether an id is that of a video or a channel of this upstream, or a page
// token. The video need not exist now.
func (s *Sim) Knows(id string) bool {
	_, _, video := s.world.findVideo(id)
	_, channel := s.world.findChannel(id)
	_, page := s.world.decodeToken(id)
	return video || channel || page
}

// StandIn returns a channel of this upstream in place of an unknown one, always the same for
// the same name.
func (s *Sim) StandIn(channel string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(channel)) // never fails
	return s.world.channelID(int(h.Sum64() % uint64(channels)))
}
