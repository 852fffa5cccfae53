package pages

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// colours is the number of colours of the palette in dashboard.css.
const colours = 24

// The classes of what is no job, caller or method.
const (
	classOthers = "others"
	classHand   = "hand"
	classNone   = "none"
)

// colourOf returns the class of a name's colour. It depends on the name alone, so a name
// keeps its colour when others come and go.
func colourOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "n" + strconv.Itoa(int(binary.BigEndian.Uint32(sum[:])%colours))
}

// paint gives each group the colour of its name. If two have the same, the later is drawn
// hollow.
func paint(groups []group) {
	taken := map[string]bool{}
	for i := range groups {
		g := &groups[i]
		switch g.kind {
		case kindOthers:
			g.class = classOthers
		case kindHand:
			g.class = classHand
		default:
			g.class = colourOf(g.name)
		}
		if taken[g.class] {
			g.class += " twin"
		}
		taken[g.class] = true
	}
}
