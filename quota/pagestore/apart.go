package pagestore

import (
	"maps"
	"slices"

	"github.com/headroom-quota/headroom/quota"
)

// queueKey is what a backend locks: two accounts, or two families, never wait for each other.
type queueKey struct {
	upstream, account string
	family            bool
}

// key returns the key of the queue of a job. Tokens of slots may be of several accounts: the backend
// locks them all.
func (j *job) key() queueKey {
	switch {
	case len(j.request.Charges) > 0:
		return keyOf(&j.request.Charges[0].Pool)
	case len(j.block.Charges) > 0:
		return keyOf(&j.block.Charges[0].Pool)
	case len(j.tokens) > 0:
		return queueKey{upstream: j.tokens[0].Upstream, account: j.tokens[0].Account}
	}
	return queueKey{upstream: j.token.Upstream, account: j.token.Account}
}

func keyOf(p *quota.Pool) queueKey {
	return queueKey{upstream: p.Upstream, account: p.Account, family: p.Name == ""}
}

// own copies all that belongs to the job's caller, who may leave before the job is done.
func (j *job) own() {
	j.request.Charges, j.block.Charges = slices.Clone(j.request.Charges), slices.Clone(j.block.Charges)
	j.tokens, j.units = slices.Clone(j.tokens), maps.Clone(j.units)
}

// covers reports whether a request is new and all its pages are in the scope.
func (s *Scope) covers(r *quota.Request) bool {
	if len(r.Charges) == 0 || r.ID != "" && !r.Fresh {
		return false
	}
	for i := range r.Charges {
		if !slices.ContainsFunc(s.Charges, func(c quota.Charge) bool { return c.Pool == r.Charges[i].Pool }) {
			return false
		}
	}
	return true
}
