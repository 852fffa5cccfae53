package pages

import (
	"errors"
	"strings"

	"github.com/headroom-quota/headroom/quota"
)

// lost says why the pools are not known. The error itself is for the log only, because it
// may name addresses.
func (s *state) lost() sentence {
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.outage, &forgotten):
		return say("The ledger has forgotten what was spent of ", forgotten.Pool, " since ", s.moment(forgotten.Born))
	case errors.Is(s.outage, quota.ErrStaleBook):
		return say("Another process uses a newer price book than this server")
	}
	return say("The ledger cannot be reached")
}

// remedy says what to do about it.
func (s *state) remedy() sentence {
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.outage, &forgotten):
		return say("Look up today's usage in the upstream's console, then run: ingestor quota adjust ", forgotten.Pool, " UNITS --reason TEXT", forgotten.Flag)
	case errors.Is(s.outage, quota.ErrStaleBook):
		return say("Restart the server with that price book")
	}
	return say("To see what is wrong: ingestor check")
}

// unknown returns the verdict while the pools are not known.
func (s *state) unknown(next *chance) verdict {
	v := verdict{Level: bad, Word: "Not known", Says: say("It is not known whether the next run, ", next.job.Name, " at ", s.moment(next.at), ", can start"), More: []sentence{s.lost()}}
	until := "Until the ledger answers"
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.outage, &forgotten):
		until = "Until the usage is put back"
	case errors.Is(s.outage, quota.ErrStaleBook):
		until = "Until the server is restarted"
	}
	calls := strings.Join(next.job.methods, " and ")
	if next.job.outage == quota.Admit && !errors.Is(s.outage, quota.ErrStaleBook) {
		v.Level = warn
		v.More = append(v.More, say(until, ", the calls of ", next.job.Name, " (", calls, ") are admitted within a small allowance, and charged afterwards"))
	} else {
		v.More = append(v.More, say(until, ", the calls of ", next.job.Name, " (", calls, ") are refused. Fetched data stays"))
	}
	v.More = append(v.More, s.remedy())
	return v
}

// poolsOfJobs returns the pools that jobs charge, of which nothing else is known.
func (s *state) poolsOfJobs() (all []quota.Usage) {
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
