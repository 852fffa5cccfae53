package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// ask is one request to a script, in the form that the prelude reads.
type ask struct {
	store    *Store
	script   script
	first    string // the first key: of a receipt, or of the reasons
	tag      string
	charges  []quota.Charge
	id       bool // the request leaves a receipt
	look     bool // the receipt may exist already
	nonce    [16]byte
	labels   quota.Labels
	days     [][]string // by charge: the spend keys, where they are known
	marks    []string   // by charge: what ends the names of its hours; nil if nothing does
	unlisted []int      // charges whose zones are not listed yet, as far as this process knows
	kept     bool       // the charges are those of receipts
	parts    int        // of a member: the partitions of its family
	noSpend  bool
	whole    bool          // the verdict needs the generation of the page, which only the long script tells
	life     time.Duration // of the receipt; 0 is quota.ReceiptLife
	extra    []any         // what the body takes on top
	more     []string      // further keys

	known  []storekit.Birth // by charge: what is known of its page
	around []window.Instant // calendars and days are sent around these
	old    [][]window.Limit // by charge: what the page was laid out for, if that must change
}

// The first number of a reply. The prelude has the same numbers.
const (
	replyDone = iota + 1
	replyMissed
	replyStale
	replyOtherWindows
	replyForgotten
	replyRelay
	replyOtherCharges
	replyGone
	replyEnded
	replyMoved
)

// never is an instant that does not come: NEVER in the prelude.
const never = 1 << 53

// maxTurns bounds how often a script can ask for missing arguments: the calendar
// around its own clock, or the layout of a charge.
const maxTurns = 20

// run runs the script until it has all arguments that it needs. It returns an error if
// the script could not decide. The caller reads the reply after its first number.
func (a *ask) run(ctx context.Context) ([]any, error) {
	now := a.store.now()
	a.around = append(a.around, window.At(now))
	a.known = make([]storekit.Birth, len(a.charges))
	for i := range a.charges {
		if a.charges[i].Pool.Key != "" {
			continue // a family's members come and go
		}
		var err error
		if a.known[i], err = a.store.births.Expect(ctx, a.charges[i].Pool, now); err != nil {
			return nil, err
		}
	}
	if err := a.markHours(ctx); err != nil {
		return nil, err
	}
	if a.script.sha == a.store.scripts.reserve.sha && !a.whole {
		if reply, err := a.steady(ctx); reply != nil || err != nil {
			if err == nil {
				a.listZones(ctx)
			}
			return reply, err
		}
	}
	if a.parts > 0 {
		if err := a.store.bring(ctx, a); err != nil {
			return nil, err
		}
	}
	for range maxTurns {
		reply, err := a.store.eval(ctx, a.script, a.keys(), a.args())
		if err != nil {
			return nil, err
		}
		var charge *quota.Charge
		if what := integer(reply[0]); what >= replyStale && what <= replyRelay {
			charge = &a.charges[integer(reply[2])-1]
		}
		switch integer(reply[0]) {
		case replyDone:
			a.store.tell(reply[1])
			a.listZones(ctx)
			return reply, nil
		case replyMissed:
			a.around = append(a.around, window.Instant(integer(reply[1])))
		case replyRelay, replyOtherWindows:
			text, _ := reply[1].(string)
			if integer(reply[0]) == replyOtherWindows && !window.FormerDefault(strings.Split(text, "\n"), charge.Windows) {
				return nil, storekit.OtherWindows(charge)
			}
			if err := a.relay(int(integer(reply[2]))-1, text); err != nil {
				return nil, err
			}
		case replyStale:
			return nil, &quota.StaleBookError{Pool: charge.Pool, Revision: charge.Revision, Stored: integer(reply[1])}
		case replyMoved:
			if err := a.store.moved(ctx, a); err != nil {
				return nil, err
			}
		case replyForgotten:
			i := integer(reply[2]) - 1
			known, other, err := a.store.births.Reconsider(ctx, charge.Pool, a.known[i])
			if err != nil {
				return nil, err
			}
			if other {
				a.known[i] = known
				continue
			}
			return nil, &quota.ForgottenError{Pool: charge.Pool, Born: window.Instant(integer(reply[1])).Time()}
		default:
			return reply, nil
		}
	}
	return nil, fmt.Errorf("the script of %s did not come to an end", a.charges[0].Pool)
}

// relay notes the windows that a page was laid out for. The next turn sends them.
func (a *ask) relay(charge int, layout string) error {
	if a.old == nil {
		a.old = make([][]window.Limit, len(a.charges))
	}
	limits, err := parseLayouts(layout)
	if err != nil {
		return fmt.Errorf("page of %s: %w", a.charges[charge].Pool, err)
	}
	a.old[charge] = limits
	return nil
}

func (a *ask) keys() []string {
	keys := []string{a.first, poolsKey(a.tag)}
	for i := range a.charges {
		page := pageOf(a.tag, a.charges[i].Pool)
		keys = append(keys, page)
		if a.days != nil {
			keys = append(keys, a.days[i]...)
		} else if !a.noSpend && !a.slot(i) {
			for _, d := range a.hourList(&a.charges[i]) {
				keys = append(keys, spendKey(a.tag, a.charges[i].Pool.Name, d.name+a.mark(i)))
			}
		}
		keys = a.addLogs(keys, i, page)
		pool := a.charges[i].Pool
		switch seats := a.seats(i); {
		case seats == seated:
			keys = append(keys, seatsKey(a.tag, pool.Name))
		case seats >= 0:
			shared := sharedPage(a.tag, pool)
			keys = append(keys, seatsKey(a.tag, pool.Name), reasonKey(page), shared, reasonKey(shared))
			keys = a.addLogs(keys, i, shared)
		}
	}
	return append(keys, a.more...)
}

func (a *ask) addLogs(keys []string, i int, page string) []string {
	for l := range a.logs(i) {
		keys = append(keys, logKey(page, l))
	}
	return keys
}

// logs returns how many keys of logs a charge needs. It is 0 if the page has no log and
// had none.
func (a *ask) logs(i int) int {
	windows := a.charges[i].Windows
	if a.old != nil {
		windows = slices.Concat(windows, a.old[i])
	}
	if slices.ContainsFunc(windows, func(w window.Limit) bool { return hasKey(w.Spec) }) {
		return len(windows)
	}
	return 0
}

func (a *ask) args() []any {
	var meta packed
	meta.add(int64(len(a.charges)), flag(a.id), flag(a.look), cmp.Or(a.life, quota.ReceiptLife).Microseconds(), flag(a.charges[0].Pool.Name == ""))
	pools := make([]string, len(a.charges))
	for i := range a.charges {
		meta.add(int64(a.logs(i)))
		if pools[i] = a.charges[i].Pool.Name; a.seats(i) != plain {
			pools[i] += "\x1f" + a.charges[i].Pool.Key
		}
	}
	for i := range a.charges {
		meta.add(a.seats(i))
	}
	if a.parts > 0 {
		meta.add(int64(a.parts), slice(a.charges[0].Windows), int64(partition(a.charges[0].Pool.Key, a.parts)))
	}
	args := append([]any(nil), meta.bytes, a.nonce[:], strings.Join(pools, "\x1e"), joinLabels(a.labels))
	for i := range a.charges {
		c := &a.charges[i]
		layouts := make([]string, len(c.Windows))
		for j, w := range c.Windows {
			layouts[j] = w.Layout
		}
		args = append(args, a.charge(i, c, c.Windows), strings.Join(layouts, "\n"))
		if a.old != nil && a.old[i] != nil {
			args = append(args, a.charge(i, c, a.old[i]))
		} else {
			args = append(args, "")
		}
		if a.slot(i) {
			args = append(args, "")
		} else {
			args = append(args, a.zone(i, c))
		}
	}
	return append(args, a.extra...)
}

// slot reports whether a charge is a slot of a call in flight. To settle one, its receipt
// says so.
func (a *ask) slot(i int) bool {
	if a.days != nil {
		return a.days[i] == nil
	}
	return a.charges[i].Windows[0].Spec.InFlight()
}

// zone returns the name of the zone that the script notes for a pool's spend.
func (a *ask) zone(i int, c *quota.Charge) string {
	if a.noSpend || a.days != nil || a.mark(i) != "" {
		return ""
	}
	return zoneName(c.Zone)
}

func (a *ask) charge(i int, c *quota.Charge, windows []window.Limit) []byte {
	var p packed
	k := &a.known[i]
	p.add(c.Units, c.Revision, micros(k.Born), micros(k.Until), identity(c.Revision, windows), k.Generation, micros(k.Latest))
	switch {
	case !a.noSpend && a.slot(i):
		p.add(-1)
	case a.days != nil: // known by their keys
		p.add(int64(len(a.days[i])))
		for range a.days[i] {
			p.add(0, 1)
		}
	case a.noSpend:
		p.add(0)
	default:
		days := a.hourList(c)
		p.add(int64(len(days)))
		for _, d := range days {
			p.add(int64(d.start), int64(d.end))
		}
	}
	p.add(int64(len(windows)))
	for i := range windows {
		w := &windows[i]
		x, y, lag := parameters(w.Spec)
		p.add(code(w), w.Limit, x, y, w.Spec.Span().Microseconds(), lag)
		periods := a.periods(w.Spec)
		p.add(int64(len(periods)))
		for _, t := range periods {
			p.add(int64(t.start), int64(t.end))
		}
	}
	return p.bytes
}

type hour struct {
	bounds
	name string
}

// thisHour returns the hour of an instant. It caches that of the last call.
func (s *Store) thisHour(at window.Instant, zone *time.Location) hour {
	if d := s.hour.Load(); d != nil && d.zone == zone && d.start <= at && at < d.end {
		return d.hour
	}
	d := &hourOf{hourAt(at, zone), zone}
	s.hour.Store(d)
	return d.hour
}

func hourAt(at window.Instant, zone *time.Location) hour {
	start, end, name := storekit.HourOf(at, zone)
	return hour{bounds{start, end}, name}
}

type hourOf struct {
	hour
	zone *time.Location
}

// hourList returns the hours around the instants in a.around.
func (a *ask) hourList(c *quota.Charge) []hour {
	var all []hour
	for _, at := range a.around {
		h := hourAt(at, c.Zone)
		all = append(all, h, hourAt(h.end, c.Zone), hourAt(h.start-1, c.Zone))
	}
	return distinct(all)
}

// packed is a row of doubles.
type packed struct{ bytes []byte }

func (p *packed) add(numbers ...int64) {
	for _, n := range numbers {
		p.bytes = binary.LittleEndian.AppendUint64(p.bytes, math.Float64bits(float64(n)))
	}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func joinLabels(l quota.Labels) string {
	return strings.Join([]string{l.Method, l.Job, l.Region, l.Class, l.Reason}, "\x1f")
}

func splitLabels(s string) quota.Labels {
	f := strings.Split(s, "\x1f")
	if len(f) != 5 {
		return quota.OtherLabels
	}
	return quota.Labels{Method: f[0], Job: f[1], Region: f[2], Class: f[3], Reason: f[4]}
}

// integer reads a number of a reply. Scripts send only integers.
func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func instant(v any) time.Time { return window.Instant(integer(v)).Time() }
