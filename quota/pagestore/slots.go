package pagestore

import (
	"errors"
	"slices"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Slots are units of a page that counts calls in flight. A receipt says when its slots
// count, so that they can be moved along or given back.

func (w *work) slots(tx Tx, j *job) error {
	var failed []error
	for i := range j.tokens {
		var err error
		if j.held[i], err = w.slotsOf(tx, &j.tokens[i], j.ended); err != nil {
			failed = append(failed, err) // the others must not wait for it
		}
		if w.broken != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// slotsOf renews the slots of one receipt and the receipt itself, or gives the slots back. It
// reports whether it had any.
func (w *work) slotsOf(tx Tx, token *quota.Token, done bool) (held bool, err error) {
	got, err := tx.Receipt(token.Upstream, token.Account, token.ID)
	if part, ok := storekit.ReadPart(token.ID); err == nil && got == nil && ok && !done {
		return false, w.keepWhole(tx, token, &part)
	}
	if err != nil || got == nil || got.Nonce != token.Nonce {
		return false, err
	}
	w.entries = w.entries[:0]
	for i := range got.Taken { // before any page is changed
		t, e := &got.Taken[i], (*Entry)(nil)
		if t.Slot && t.Recorded != 0 {
			if e, err = w.taken(tx, token, t); err == nil && e.Page == nil && t.Key != "" && !done {
				err = w.again(tx, e)
			}
			if err != nil {
				return false, err
			}
			if e.Page == nil || !e.Page.InFlight() { // by another price book there are no slots
				e = nil
			}
		}
		held = held || e != nil
		w.entries = append(w.entries, e)
	}
	if !held && done {
		return false, nil
	}
	for i, e := range w.entries {
		t := &got.Taken[i]
		switch {
		case e != nil:
			w.renew(e, t, done)
		case !done && !t.Slot && t.Key != "":
			if e, err = w.keptFor(tx, token, t); err != nil {
				return false, w.wrote(err)
			}
		}
		if e == nil {
			continue
		}
		if err := w.put(tx, e, nil); err != nil {
			return false, err
		}
	}
	got.Released = got.released()
	return held, w.wrote(tx.Keep(got))
}

// keepWhole prolongs the receipt of a reservation of which a part is not settled yet.
func (w *work) keepWhole(tx Tx, of *quota.Token, part *storekit.Part) error {
	got, err := tx.Receipt(of.Upstream, of.Account, part.Of)
	if err != nil || got == nil || part.Check(of, got.Nonce, len(got.Taken)) != nil {
		return err
	}
	return w.wrote(tx.Keep(got))
}

// again makes the page of a key anew, whose slots count again. It had made room for another key
// while nobody renewed them. The pool may then have a page too many, until an idle one is
// dropped. The other pages of the pool say how it is laid out: one of them was made since.
func (w *work) again(tx Tx, e *Entry) error {
	like, err := tx.Member(e.Family, "")
	if err == nil && like.Page == nil {
		like, err = tx.Oldest(e.Family)
	}
	if err != nil || like == nil || like.Page == nil {
		return err
	}
	page := like.Page.Clone()
	at, _ := page.Now(w.now)
	page.Forget(at, window.MaxUnits)
	page.Born, page.Generation, page.Latest, page.Blocked = at, int64(at), at, 0
	e.Page, e.again = page, true
	return nil
}

// renew moves a slot to now, or gives it back.
func (w *work) renew(e *Entry, t *Taken, done bool) {
	e.enter(w.now)
	if t.Generation == e.Page.Generation {
		e.Page.Give(e.at, t.At, t.Recorded)
	}
	if done {
		t.Recorded = 0
	} else {
		t.At, t.Generation = e.at, e.Page.Generation
	}
	e.Page.Add(e.at, t.Recorded) // of nothing, too: the page has seen the time
}

// keptFor returns the page of a key if it must be stored to be kept for as long as the
// receipt, which may be settled to a higher cost; else nil.
func (w *work) keptFor(tx Tx, of *quota.Token, t *Taken) (*Entry, error) {
	e, err := w.taken(tx, of, t)
	if err != nil || e.Page == nil || w.now.Sub(e.Page.Latest) < quota.ReceiptLife/2 {
		return nil, err
	}
	e.enter(w.now)
	e.Page.Add(e.at, 0)
	return e, nil
}

// ended reports whether the call of a receipt has ended: it has given a slot back.
func (r *Receipt) ended() bool {
	return slices.ContainsFunc(r.Taken, func(t Taken) bool { return t.Slot && t.Recorded == 0 && t.Units != 0 })
}
