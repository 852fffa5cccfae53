package verdict

import (
	"errors"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Lost says why the pools are not known, or why they cannot be charged.
func (s *State) Lost() Sentence {
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.Outage, &forgotten):
		return Say("The ledger has forgotten what was spent of ", forgotten.Pool, " since ", s.Moment(forgotten.Born))
	case errors.Is(s.Outage, quota.ErrStaleBook):
		return Say("Another process uses a newer price book than this server")
	case s.Outage == nil:
		return Say("The ledger can be read, but not written", s.whyNot())
	}
	return Say("The ledger cannot be reached")
}

func (s *State) remedy() Sentence {
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.Outage, &forgotten):
		return Say("Look up today's usage in the upstream's console, then run: ingestor quota adjust ", forgotten.Pool, " UNITS --reason TEXT", forgotten.Flag)
	case errors.Is(s.Outage, quota.ErrStaleBook):
		return Say("Restart the server with that price book")
	}
	return Say("To see what is wrong: ingestor check")
}

// whyNot says what may keep files from being written, if that is known.
func (s *State) whyNot() string {
	if len(s.Disks) > 0 {
		return ". " + s.Disks[0].String()
	}
	return ""
}

// String says how full the disk is.
func (d Disk) String() string {
	return "The disk of " + d.Folder + " has only " + view.Number(d.Left>>20) + " MiB left"
}

func (s *State) noCatalog() []Sentence {
	if s.Unread != nil {
		return []Sentence{Say("The catalog cannot be read, so runs and regions are missing"), Say("To look for damage: ingestor doctor")}
	}
	return []Sentence{Say("The catalog can be read, but not written", s.whyNot()), Say("To see what is wrong: ingestor check")}
}

// unknown returns the verdict while the pools are not known, or cannot be charged.
func (s *State) unknown(next *chance) Verdict {
	v := Verdict{Level: bad, Word: "Not known", Says: Say("It is not known whether the next run, ", next.job.Name, " at ", s.Moment(next.at), ", can start"), More: []Sentence{s.Lost()}}
	until := "Until the ledger answers"
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(s.Outage, &forgotten):
		until = "Until the usage is put back"
	case errors.Is(s.Outage, quota.ErrStaleBook):
		until = "Until the server is restarted"
	case s.Outage == nil:
		until, v.Word, v.about = "Until it can", "Stopped", next
		v.Says = Say("The next run, ", next.job.Name, " at ", s.Moment(next.at), ", cannot be charged")
	}
	calls := strings.Join(next.job.Methods, " and ")
	if next.job.outage == quota.Admit && !errors.Is(s.Outage, quota.ErrStaleBook) {
		v.Level = warn
		v.More = append(v.More, Say(until, ", the calls of ", next.job.Name, " (", calls, ") are admitted within a small allowance, and charged afterwards"))
	} else {
		v.More = append(v.More, Say(until, ", the calls of ", next.job.Name, " (", calls, ") are refused. Fetched data stays"))
	}
	v.More = append(v.More, s.remedy())
	return v
}

// poolsOfJobs returns the pools that jobs charge, of which nothing else is known.
func (s *State) poolsOfJobs() (all []quota.Usage) {
	seen := map[string]bool{}
	for _, j := range s.Jobs {
		for _, name := range j.Pools() {
			if pool, err := quota.ParsePool(name); err == nil && !seen[name] {
				seen[name] = true
				all = append(all, quota.Usage{PageState: quota.PageState{Pool: pool}})
			}
		}
	}
	return all
}
