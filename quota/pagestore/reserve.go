package pagestore

import (
	"cmp"
	"slices"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

func (w *work) reserve(tx Tx, j *job) (err error) {
	r := &j.request
	receipts := r.Charges[0].Pool.Name != "" // a family's member takes none, and leaves no spend
	if r.ID != "" && !r.Fresh && receipts {
		got, err := receipt(tx, r)
		if err != nil {
			return err
		}
		if got != nil && !(got.Released && got.covers(r.Charges)) {
			return w.repeat(tx, &j.verdict, r, got)
		}
	}
	if err := w.open(tx, r.Charges, false); err != nil {
		return err
	}
	v := &j.verdict
	decide(v, w.now, r.Charges, w.entries)
	v.ID = r.ID
	if !v.Allowed {
		return w.putMoved(tx, r.Charges)
	}
	if receipts {
		if err := tx.Room(r); err != nil {
			return err
		}
	}
	take(v, r.Charges, w.entries)
	if !receipts && r.Fresh {
		v.Generation = w.entries[0].Page.Generation
	}
	v.Nonce, err = w.charge(tx, r)
	return err
}

// repeat answers a request whose id has a receipt.
func (w *work) repeat(tx Tx, v *quota.Verdict, r *quota.Request, got *Receipt) error {
	switch {
	case !got.covers(r.Charges):
		return storekit.OtherCharges(r.ID)
	case got.ended():
		return storekit.Ended(r.ID)
	}
	if err := w.open(tx, r.Charges, false); err != nil {
		return err
	}
	standing(v, r.Charges, w.entries)
	v.ID, v.Nonce, v.At = r.ID, got.Nonce, got.Taken[0].At.Time()
	return w.putMoved(tx, r.Charges)
}

func (w *work) record(tx Tx, j *job) (err error) {
	r := &j.request
	receipts := r.Charges[0].Pool.Name != ""
	w.units = w.units[:0]
	var got *Receipt
	if receipts {
		got, err = receipt(tx, r)
	}
	switch {
	case err != nil:
		return err
	case got != nil && !got.covers(r.Charges):
		return storekit.OtherCharges(r.ID)
	case got != nil && !got.Released: // that call never left; this one is another try
		for i := range got.Taken {
			w.units = append(w.units, got.Taken[i].Recorded)
		}
		j.recorded = r.Recorded(w.units)
		return nil
	}
	if err := w.open(tx, r.Charges, r.Restore); err != nil {
		return err
	}
	if receipts {
		if err := tx.Room(r); err != nil {
			return err
		}
	}
	some := false
	for i, e := range w.entries {
		e.toRecord(r, &r.Charges[i])
		some = some || e.Units != 0
	}
	for _, e := range w.entries {
		if some || !r.AtLeast {
			recordIn(e, r)
		}
		w.units = append(w.units, e.Units)
	}
	j.recorded = r.Recorded(w.units)
	if (r.AtLeast || r.Generation != 0) && !some {
		return w.putMoved(tx, r.Charges)
	}
	_, err = w.charge(tx, r)
	return err
}

func (w *work) settle(tx Tx, j *job) error {
	if on, can := tx.(Prober); can && j.token.ID == quota.ReadyID {
		broken, full := on.Probe()
		if err := cmp.Or(w.wrote(broken), full); err != nil {
			return err
		}
	}
	got, part, err := w.receiptOf(tx, &j.token)
	if err != nil {
		return err
	}
	w.pools, w.units = w.pools[:0], w.units[:0]
	for i := range got.Taken {
		if t := &got.Taken[i]; !t.Slot {
			w.pools, w.units = append(w.pools, t.Pool), append(w.units, t.Units)
		}
	}
	units, err := j.units.InOrder(w.pools)
	if err != nil {
		return err
	}
	if got.Settled {
		j.settlement = got.Done
		j.settlement.Repeat = true
		return nil
	}
	if err := j.token.CheckCost(w.pools, w.units, units); err != nil {
		return err
	}
	w.entries = w.entries[:0]
	for i := range got.Taken { // before any page is changed
		e, err := w.taken(tx, &j.token, &got.Taken[i])
		if err != nil {
			return err
		}
		w.entries = append(w.entries, e)
	}
	for i, e := range w.entries {
		t := &got.Taken[i]
		cost := int64(0)
		switch {
		case !t.Slot:
			cost, units = units[0], units[1:]
		case j.units != nil || t.Recorded == 0:
			continue // it stays, or was given back
		}
		t.Recorded = cost
		if e.Page == nil { // its windows have run out
			t.Done = quota.Settlement{Left: max(t.Units-t.Recorded, 0)}
		} else {
			e.enter(w.now)
			atEnd := cost > 0 && !t.Slot && j.token.AtEnd(t.Pool)
			t.Done = settleIn(e, t, atEnd)
			if t.Recorded != t.Units || atEnd || e.moved {
				if err := w.put(tx, e, nil); err != nil {
					return err
				}
			}
		}
		got.Done.Add(t.Done)
	}
	got.Settled = true
	got.Released = got.released()
	j.settlement = got.Done
	if part != nil {
		return w.wrote(tx.AmendPart(got, &j.token, part))
	}
	return w.wrote(tx.Amend(got))
}

// receiptOf returns the receipt of a token. A part of a reservation that was not settled
// yet has the receipt of the whole, with the units of the part.
func (w *work) receiptOf(tx Tx, t *quota.Token) (*Receipt, *storekit.Part, error) {
	got, err := tx.Receipt(t.Upstream, t.Account, t.ID)
	if err != nil {
		return nil, nil, err
	}
	if got != nil {
		if got.Nonce != t.Nonce {
			return nil, nil, storekit.NoReceipt(*t)
		}
		return got, nil, nil
	}
	part, ok := storekit.ReadPart(t.ID)
	if !ok {
		return nil, nil, storekit.NoReceipt(*t)
	}
	room := quota.Request{ID: t.ID, Charges: []quota.Charge{{Pool: quota.Pool{Upstream: t.Upstream, Account: t.Account}}}}
	if err := tx.Room(&room); err != nil { // before the receipt of the whole is found: a backend may move receipts
		return nil, nil, err
	}
	if got, err = tx.Receipt(t.Upstream, t.Account, part.Of); err != nil {
		return nil, nil, err
	}
	if got == nil || got.Settled {
		return nil, nil, storekit.NoReceipt(*t)
	}
	if err := part.Check(t, got.Nonce, len(got.Taken)); err != nil {
		return nil, nil, err
	}
	for i := range got.Taken {
		got.Taken[i].Units, got.Taken[i].Recorded = part.Units[i], part.Units[i]
	}
	return got, &part, nil
}

// taken finds the page that a charge of a receipt was taken from.
func (w *work) taken(tx Tx, of *quota.Token, t *Taken) (*Entry, error) {
	p := &w.pool
	*p = quota.Pool{Upstream: of.Upstream, Account: of.Account, Name: t.Pool, Key: t.Key}
	switch {
	case t.Overflow:
		return findMember(tx, p, "")
	case t.Key != "":
		return findMember(tx, p, t.Key)
	}
	return w.entry(tx, p, false)
}

func (w *work) shut(tx Tx, j *job) error {
	b := &j.block
	if err := w.open(tx, b.Charges, false); err != nil {
		return err
	}
	for i, e := range w.entries {
		if blockIn(e, w.now, b) {
			e.Reason = b.Reason
		}
		if err := w.put(tx, e, &b.Charges[i]); err != nil {
			return err
		}
	}
	return nil
}

// open finds the pages of charges, advances them to the instant that counts and lays
// them out. If it returns an error, it has changed no page.
func (w *work) open(tx Tx, charges []quota.Charge, restore bool) error {
	w.entries = w.entries[:0]
	for i := range charges {
		c := &charges[i]
		var e *Entry
		var err error
		if c.Pool.Key != "" {
			e, err = w.member(tx, c)
		} else if e, err = w.entry(tx, &c.Pool, restore); err == nil {
			err = e.check(c)
		}
		if err != nil {
			return err
		}
		w.entries = append(w.entries, e)
	}
	for i, e := range w.entries {
		e.layOut(w.now, &charges[i])
	}
	return nil
}

// entry finds a page. A lost page is an error unless restore is set.
func (w *work) entry(tx Tx, p *quota.Pool, restore bool) (*Entry, error) {
	e, err := tx.Entry(p, restore)
	if err != nil || w.births.seen == nil {
		return e, err
	}
	expected, err := w.births.expect(*p, tx.Now())
	if err == nil {
		err = w.births.check(e, expected, tx.Now(), restore)
	}
	return e, err
}

func (w *work) put(tx Tx, e *Entry, c *quota.Charge) error {
	if e.Family != nil {
		return w.putMember(tx, e, c)
	}
	if w.births.seen != nil {
		w.saved = append(w.saved, e)
	}
	return w.wrote(tx.Put(e, c))
}

// putMoved stores pages that were laid out again or re-based, even if the request was
// refused.
func (w *work) putMoved(tx Tx, charges []quota.Charge) error {
	for i, e := range w.entries {
		if !e.moved {
			continue
		}
		if err := w.put(tx, e, &charges[i]); err != nil {
			return err
		}
	}
	return nil
}

// charge stores the units that were taken from the entries, and when.
func (w *work) charge(tx Tx, r *quota.Request) (nonce quota.Nonce, err error) {
	for i, e := range w.entries {
		if err := w.put(tx, e, &r.Charges[i]); err != nil {
			return nonce, err
		}
	}
	if r.Charges[0].Pool.Name == "" {
		return nonce, nil
	}
	if r.ID != "" {
		nonce = w.newNonce()
	}
	return nonce, w.wrote(tx.Charge(r, w.entries, nonce))
}

// receipt returns the receipt of a request's id, or nil. A call that was admitted in an
// outage has no slots, but its reservation may have been granted with them, if only the
// reply was lost. So a request without slots means what else the receipt has.
func receipt(tx Tx, r *quota.Request) (*Receipt, error) {
	if r.ID == "" {
		return nil, nil
	}
	got, err := tx.Receipt(r.Charges[0].Pool.Upstream, r.Charges[0].Pool.Account, r.ID)
	if got != nil && len(r.Charges) < len(got.Taken) && !slices.ContainsFunc(r.Charges, isSlot) {
		got.Taken = slices.DeleteFunc(got.Taken, func(t Taken) bool { return t.Slot })
	}
	return got, err
}

func isSlot(c quota.Charge) bool { return c.Windows[0].Spec.InFlight() }

// covers reports whether a receipt is for exactly these charges.
func (r *Receipt) covers(charges []quota.Charge) bool {
	return slices.EqualFunc(r.Taken, charges, func(t Taken, c quota.Charge) bool {
		return t.Pool == c.Pool.Name && t.Key == c.Pool.Key && t.Units == c.Units
	})
}
