package pagestore

import (
	"errors"

	"github.com/headroom-quota/headroom/quota"
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

// slotsOf renews the slots of one receipt, or gives them back. It reports whether it had
// any.
func (w *work) slotsOf(tx Tx, token *quota.Token, done bool) (held bool, err error) {
	got, err := tx.Receipt(token.Upstream, token.Account, token.ID)
	if err != nil || got == nil || got.Nonce != token.Nonce {
		return false, err
	}
	for i := range got.Taken {
		t := &got.Taken[i]
		if !t.Slot || t.Recorded == 0 {
			continue
		}
		e, err := w.taken(tx, token, t)
		if err != nil {
			return false, err
		}
		if e.Page == nil || !e.Page.InFlight() { // by another price book there are no slots
			continue
		}
		held = true
		e.enter(w.now)
		if t.Generation == e.Page.Generation {
			e.Page.Give(e.at, t.At, t.Recorded)
		}
		if done {
			t.Recorded = 0
		} else {
			e.Page.Add(e.at, t.Recorded)
			t.At, t.Generation = e.at, e.Page.Generation
		}
		if err := w.put(tx, e, nil); err != nil {
			return false, err
		}
	}
	if !held {
		return false, nil
	}
	got.Released = got.released()
	if err := tx.Keep(got); err != nil {
		return false, w.wrote(err)
	}
	return true, nil
}

// ended reports whether the call of a receipt has ended: it has given a slot back.
func (r *Receipt) ended() bool {
	for i := range r.Taken {
		if t := &r.Taken[i]; t.Slot && t.Recorded == 0 && t.Units != 0 {
			return true
		}
	}
	return false
}
