package web

import (
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/quota"
)

// settlement is a [quota.Settlement] for JSON.
type settlement struct {
	ID      string `json:"id"`
	Back    int64  `json:"back"`
	Left    int64  `json:"left"`
	Charged int64  `json:"charged"`
	Repeat  bool   `json:"repeat"` // it was settled before, with this result
}

func settlementOf(t *quota.Token, s quota.Settlement) settlement {
	return settlement{problem.OwnID(t.ID), s.Back, s.Left, s.Charged, s.Repeat}
}

// grantOf returns the verdict of a grant.
func grantOf(granted *quota.Reservation) *problem.Verdict {
	v := problem.VerdictOf(&granted.Verdict)
	v.Charges = granted.Charges()
	if n, has := granted.Bill(); has {
		v.Bill = &n
	}
	v.Token = receipt(granted, v.Charges)
	return v
}
