package pages

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"sync"
)

// colours is the number of colours of the palette in dashboard.css: two rings of hues, of
// which the second is darker.
const (
	colours = 24
	ring    = colours / 2
)

// The classes of what is no job, caller or method.
const (
	classOthers = "others"
	classHand   = "hand"
	classNone   = "none"
)

// palette remembers the colour of each name. A name keeps its colour when others come and
// go. A new name gets the colour of its hash if that is free and differs well from those
// that are taken; or else the free one that differs most. When all are taken, names get
// the same colours again, and are drawn hollow.
type palette struct {
	mu    sync.Mutex
	looks map[string]int   // by name; from colours on hollow
	taken [2 * colours]int // how many names have a look
}

// maxNames bounds the names that a palette remembers.
const maxNames = 5000

func (p *palette) classOf(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	look, is := p.looks[name]
	if !is {
		if p.looks == nil || len(p.looks) >= maxNames {
			p.looks, p.taken = map[string]int{}, [2 * colours]int{}
		}
		look = p.choose(name)
		p.looks[name] = look
		p.taken[look]++
	}
	class := "n" + strconv.Itoa(look%colours)
	if look >= colours {
		class += " twin"
	}
	return class
}

func (p *palette) choose(name string) int {
	sum := sha256.Sum256([]byte(name))
	own := int(binary.BigEndian.Uint32(sum[:]) % colours)
	least, from := slices.Min(p.taken[:]), 0
	if !slices.Contains(p.taken[:colours], least) {
		from = colours // the hollow ones are next
	}
	best, most := 0, -1.0
	for i := range colours {
		look := from + (own+i)%colours
		if p.taken[look] > least {
			continue
		}
		if d := p.distance(look, least); d > most {
			best, most = look, d
		}
		if i == 0 && most >= 2 {
			break
		}
	}
	return best
}

// distance returns how much a look differs from those that were taken in this round.
func (p *palette) distance(look, round int) float64 {
	least := math.Inf(1)
	for other, n := range p.taken {
		if n <= round || other/colours != look/colours {
			continue
		}
		hue := math.Abs(float64(look%ring - other%ring))
		d := math.Min(hue, ring-hue)
		if look%colours/ring != other%colours/ring {
			d += 2.5
		}
		least = math.Min(least, d)
	}
	return least
}

// paint gives each group the colour of its name.
func (p *palette) paint(groups []group) {
	for i := range groups {
		g := &groups[i]
		switch {
		case g.class != "":
		case g.kind == kindOthers:
			g.class = classOthers
		case g.kind == kindHand:
			g.class = classHand
		default:
			g.class = p.classOf(g.name)
		}
	}
}
