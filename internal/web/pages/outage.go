package pages

import (
	"errors"
	"strings"

	"github.com/headroom-quota/headroom/quota"
)

// lost says why nothing is known of the pools. The error itself is for the log: it may
// name addresses.
func (s *state) lost() sentence {
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.outage, &forgotten):
		return say("the ledger has forgotten what was spent of ", forgotten.Pool, " since ", s.at(forgotten.Born))
	case errors.Is(s.outage, quota.ErrStaleBook):
		return say("another process goes by a newer price book than this server")
	}
	return say("the ledger cannot be reached")
}

// cure says what to do about it.
func (s *state) cure() sentence {
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.outage, &forgotten):
		return say("Find out how much it was, from the upstream's console, and put it back: ingestor quota adjust ", forgotten.Pool)
	case errors.Is(s.outage, quota.ErrStaleBook):
		return say("Start it again with that book")
	}
	return say("ingestor check says what is wrong")
}

// unknown is the verdict while nothing is known of the pools.
func (s *state) unknown(next *chance) verdict {
	says := append(say("Nobody can say whether the next run, ", next.job.Name, " at ", s.at(next.at), ", can go: "), s.lost()...)
	v := verdict{Level: bad, Word: "Nobody knows", Says: says}
	calls := strings.Join(next.job.methods, " and ")
	if next.job.outage == quota.Admit && !errors.Is(s.outage, quota.ErrStaleBook) {
		v.Level = warn
		v.More = append(v.More, say("Its calls (", calls, ") are admitted meanwhile within a small allowance, and charged when the ledger is back"))
	} else {
		v.More = append(v.More, say("Its calls (", calls, ") are refused until then; what was fetched stays"))
	}
	v.More = append(v.More, s.cure())
	return v
}

// fromBook are the pools that jobs charge, of which nothing else is known.
func (s *state) fromBook() (all []quota.Usage) {
	seen := map[string]bool{}
	for _, j := range s.jobs {
		for _, name := range j.pools() {
			if pool, err := quota.ParsePool(name); err == nil && !seen[name] {
				seen[name] = true
				all = append(all, quota.Usage{PageState: quota.PageState{Pool: pool}})
			}
		}
	}
	return all
}
