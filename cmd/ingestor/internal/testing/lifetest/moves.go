package lifetest

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// move is something that may happen. Do returns more words about it, or false if it cannot happen now.
type move struct {
	name string
	odds int
	do   func(l *Life) (about string, can bool)
}

// Moves names what may happen.
func Moves() (names []string) {
	for _, m := range moves {
		names = append(names, m.name)
	}
	return names
}

var moves = []move{
	{"the daemon is killed, or frozen", 2, func(l *Life) (string, bool) {
		l.Die()
		return "", true
	}},
	{"the daemon ends by itself", 1, func(l *Life) (string, bool) {
		if l.Kind == Alone && !l.Hung() {
			_ = l.heart().Stop(l.Context()) // a full disk takes no note
		}
		l.Die()
		l.ended = l.Shelf.Is() == Well
		return "", true
	}},
	{"a daemon is up", 5, func(l *Life) (string, bool) {
		l.Alive = true
		l.Beat()
		return "", true
	}},
	{"all processes start again", 2, func(l *Life) (string, bool) {
		if l.Hung() {
			return "", false
		}
		l.Restart()
		l.Alive = true
		l.Beat()
		return "", true
	}},
	{"others spend", 2, charged(func(l *Life) (string, error) {
		n := 1 + l.Rand.Int64N(40)
		_, err := l.Ledger.Admin().Adjust(l.Context(), Units, n, "others")
		return fmt.Sprint(n), err
	})},
	{"the pool is used up", 1, charged(func(l *Life) (string, error) {
		_, err := l.Ledger.Admin().Adjust(l.Context(), Units, 35, "others")
		return "", err
	})},
	{"a block", 2, charged(func(l *Life) (string, error) {
		d := time.Duration(1+l.Rand.IntN(180)) * time.Minute
		return d.String(), l.Ledger.BlockFor(l.Context(), Units, d, "maintenance")
	})},
	{"no block", 2, charged(func(l *Life) (string, error) { return "", l.Ledger.Admin().Unblock(l.Context(), Units) })},
	{"the ledger's disk is spoiled", 2, func(l *Life) (string, bool) { return l.spoil(&l.Store.Disk) }},
	{"the catalog's disk is spoiled", 2, func(l *Life) (string, bool) { return l.spoil(&l.Shelf.Disk) }},
	{"the disks are well", 5, func(l *Life) (string, bool) {
		l.Store.Set(Well)
		l.Shelf.Set(Well)
		return "", true
	}},
	{"a copy of the ledger is taken", 2, charged(func(l *Life) (string, error) {
		to := l.Path("backup.db")
		if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
			return "", err
		}
		err := sqlitefile.Snapshot(l.Context(), l.Path("ledger.db"), to)
		if err == nil {
			l.backup = to
		}
		return "", err
	})},
	{"the ledger is deleted", 1, func(l *Life) (string, bool) {
		l.Delete()
		return "", true
	}},
	{"the ledger is replaced by the copy", 1, func(l *Life) (string, bool) {
		if l.backup == "" {
			return "", false
		}
		l.Delete()
		text, err := os.ReadFile(l.backup)
		if err == nil {
			err = os.WriteFile(l.Path("ledger.db"), text, 0o600)
		}
		return fmt.Sprint(err), true
	}},
	{"a person adds what was spent", 3, charged(func(l *Life) (string, error) {
		_, err := l.Ledger.Admin().Adjust(l.Context(), Units, 1, "what the console says")
		return "", err
	})},
	{"a person sets a limit", 2, charged(func(l *Life) (string, error) {
		k := quota.KeyLimit{Family: quota.LimitsOfUpstream + "youtube", Key: Units.Name, Quota: 1 + l.Rand.Int64N(40), By: "a person", Reason: "the console says so"}
		if l.Rand.IntN(3) == 0 {
			k.Headroom = new(l.Rand.Int64N(k.Quota))
		}
		if l.Rand.IntN(2) == 0 {
			k.Until = l.Clock.Now().Truncate(TimerEvery).Add(time.Duration(1+l.Rand.IntN(24)) * TimerEvery)
		}
		_, err := l.Ledger.Admin().SetLimit(l.Context(), k)
		return fmt.Sprint(k.Quota, " until ", k.Until), err
	})},
	{"the upstream is down", 1, func(l *Life) (string, bool) { return l.fail(youtubesim.Fault{Do: youtubesim.Answer}) }},
	{"the key is wrong", 1, func(l *Life) (string, bool) {
		return l.fail(youtubesim.Fault{Do: youtubesim.Refuse, Refusal: youtubesim.KeyInvalid})
	}},
	{"the upstream is well", 4, func(l *Life) (string, bool) {
		l.sim.Heal()
		l.upstream = ""
		return "", true
	}},
	{"a job is paused", 6, func(l *Life) (string, bool) {
		job := l.Jobs[l.Rand.IntN(len(l.Jobs))].Name
		if l.Kind != Fleet || l.Paused(job) {
			return "", false
		}
		l.pauses = append(l.pauses, fleet.Pause{Account: quota.DefaultAccount, Job: job})
		return job, true
	}},
	{"the jobs are resumed", 12, func(l *Life) (string, bool) {
		some := len(l.pauses) > 0
		l.pauses = nil
		return "", some
	}},
	{"a table of the fleet is locked", 2, func(l *Life) (string, bool) {
		if l.Kind != Fleet {
			return "", false
		}
		l.locks = []fleet.Lock{{Table: "headroom_fleet.river_job", PID: 4711, User: "anna", Program: "psql", Query: "LOCK TABLE headroom_fleet.river_job"}}
		return "", true
	}},
	{"no table is locked", 6, func(l *Life) (string, bool) {
		some := len(l.locks) > 0
		l.locks = nil
		return "", some
	}},
	{"the clock is set forward", 1, func(l *Life) (string, bool) { return l.shift(1) }},
	{"the clock is set back", 1, func(l *Life) (string, bool) { return l.shift(-1) }},
	{"time passes", 3, func(l *Life) (string, bool) {
		l.Pass(time.Duration(l.Rand.IntN(6)) * time.Hour)
		return "", true
	}},
}

// Die ends the daemon, or the timer, if it is there.
func (l *Life) Die() {
	if l.Alive {
		l.Alive, l.died = false, l.Clock.Now()
	}
}

// charged is a move for which the ledger is asked. It is none while that does not answer.
func charged(do func(l *Life) (string, error)) func(l *Life) (string, bool) {
	return func(l *Life) (string, bool) {
		if l.Hung() {
			return "", false
		}
		about, err := do(l)
		return fmt.Sprintf("%s: %v", about, err), true
	}
}

func (l *Life) spoil(d *Disk) (string, bool) {
	f := []Fault{Full, Full, ReadOnly, Lost, Hangs, Deaf}[l.Rand.IntN(6)]
	d.Set(f)
	return string(f), true
}

func (l *Life) fail(f youtubesim.Fault) (string, bool) {
	l.sim.Heal()
	l.sim.Inject(f)
	l.upstream, l.since = f.Do, l.calls.Load()
	return "", true
}

func (l *Life) shift(sign int) (string, bool) {
	if sign < 0 && l.Kind == Fleet { // it is the clock of the database, by which a daemon of a time to come is alive
		return "", false
	}
	by := time.Duration(sign) * ([]time.Duration{3 * time.Minute, time.Hour, 5 * time.Hour}[l.Rand.IntN(3)] + 7*time.Second) // so that no instant comes twice
	l.Clock.Set(l.Clock.Now().Add(by))
	l.shifted = true
	return by.String(), true
}

// Happen makes something happen, and returns what.
func (l *Life) Happen() string {
	moves := slices.DeleteFunc(slices.Clone(moves), func(m move) bool { return m.name == l.Lacks })
	all := 0
	for _, m := range moves {
		all += m.odds
	}
	for {
		at := l.Rand.IntN(all)
		for _, m := range moves {
			if at -= m.odds; at >= 0 {
				continue
			}
			about, can := m.do(l)
			if !can {
				break
			}
			l.Log("%s %s", m.name, about)
			l.Moved[m.name]++
			return m.name
		}
	}
}
