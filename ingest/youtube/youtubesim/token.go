package youtubesim

import (
	"encoding/base64"
	"encoding/binary"
)

// A page token holds the start of the page, the time of the list and the request. So the
// pages of a walk fit together however far apart they are, and a token is valid only for its
// own request.
type pageToken struct {
	offset int64 // of the page's first item; for uploads, the number of items before it
	number int64 // for uploads: the next video
	at     int64 // time of the list
	about  uint64
}

const tokenLength = 4 + 4 + 8 + 4 + 4

func (w world) encodeToken(t pageToken) string {
	var b [tokenLength]byte
	binary.BigEndian.PutUint32(b[0:], uint32(t.offset))
	binary.BigEndian.PutUint32(b[4:], uint32(t.number))
	binary.BigEndian.PutUint64(b[8:], uint64(t.at))
	binary.BigEndian.PutUint32(b[16:], uint32(t.about))
	binary.BigEndian.PutUint32(b[20:], w.tokenCheck(b[:20]))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (w world) decodeToken(s string) (t pageToken, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != tokenLength || binary.BigEndian.Uint32(b[20:]) != w.tokenCheck(b[:20]) {
		return t, false
	}
	t.offset = int64(binary.BigEndian.Uint32(b[0:]))
	t.number = int64(binary.BigEndian.Uint32(b[4:]))
	t.at = int64(binary.BigEndian.Uint64(b[8:]))
	t.about = uint64(binary.BigEndian.Uint32(b[16:]))
	return t, true
}

func (w world) tokenCheck(b []byte) uint32 { return uint32(w.hashText(ofToken, string(b))) }
