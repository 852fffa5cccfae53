package sqlitestore

import (
	"context"
	"database/sql/driver"
	"slices"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// receipt is what the rows of a reservation say.
type receipt struct {
	nonce    [16]byte
	taken    []taken
	settled  bool
	released bool // to nothing: the call never left, and its id may be tried again
	done     quota.Settlement
}

// taken is one charge of a receipt.
type taken struct {
	quota.Taken
	number   int64 // of its row
	pool     string
	recorded int64 // of the units: a correction gives back no more than was used
}

// receipt returns the receipt of an id of a pool's account, or nil.
func (t *tx) receipt(id string, account quota.Pool) (*receipt, error) {
	if id == "" {
		return nil, nil
	}
	var got *receipt
	over := false // the receipt is complete, or too old: those below are older
	err := t.rows(receiptFind, []driver.Value{id, account.Upstream, account.Account}, func(r row) error {
		nonce := r.blob(2)
		if over || len(nonce) != len(receipt{}.nonce) {
			return nil
		}
		switch {
		case got == nil && window.At(t.now).Sub(window.Instant(r.int(3))) > quota.ReceiptLife:
			over = true
			return nil
		case got == nil:
			got = &receipt{nonce: [16]byte(nonce), settled: r.int(7) != 0, released: r.int(7) != 0}
		case got.nonce != [16]byte(nonce):
			over = true
			return nil
		}
		got.released = got.released && r.int(11) == 0
		got.taken = append(got.taken, taken{
			number: r.int(0), pool: r.text(1), recorded: r.int(11),
			Taken: quota.Taken{At: window.Instant(r.int(4)), Units: r.int(5), Generation: r.int(6)},
		})
		got.done.Add(quota.Settlement{Back: r.int(8), Left: r.int(9), Charged: r.int(10)})
		return nil
	})
	if got != nil { // the latest row came first
		slices.Reverse(got.taken)
	}
	return got, err
}

// covers reports whether a receipt is for exactly these charges.
func (r *receipt) covers(charges []quota.Charge) bool {
	if len(charges) != len(r.taken) {
		return false
	}
	for i, t := range r.taken {
		if t.pool != charges[i].Pool.Name || t.Units != charges[i].Units {
			return false
		}
	}
	return true
}

// pools are the names of the pools that were charged.
func (r *receipt) pools() []string {
	names := make([]string, len(r.taken))
	for i, t := range r.taken {
		names[i] = t.pool
	}
	return names
}

// Settle implements [quota.Store].
func (s *Store) Settle(ctx context.Context, token quota.Token, units quota.Units) (done quota.Settlement, err error) {
	err = s.transact(ctx, func(t *tx) error {
		done, err = t.settle(token, units)
		return err
	})
	if err != nil {
		return quota.Settlement{}, err
	}
	return done, nil
}

func (t *tx) settle(token quota.Token, units quota.Units) (quota.Settlement, error) {
	account := quota.Pool{Upstream: token.Upstream, Account: token.Account}
	got, err := t.receipt(token.ID, account)
	switch {
	case err != nil:
		return quota.Settlement{}, err
	case got == nil || got.nonce != token.Nonce:
		return quota.Settlement{}, quota.NoReceipt(token)
	}
	settled, err := quota.CheckSettle(units, got.pools())
	if err != nil {
		return quota.Settlement{}, err
	}
	if got.settled {
		got.done.Repeat = true
		return got.done, nil
	}
	var sum quota.Settlement
	for i, c := range got.taken {
		account.Name = c.pool
		one, err := t.settleCharge(account, c, settled[i])
		if err != nil {
			return quota.Settlement{}, err
		}
		sum.Add(one)
	}
	return sum, nil
}

// settleCharge corrects one charge: its page, and its row.
func (t *tx) settleCharge(name quota.Pool, c taken, units int64) (quota.Settlement, error) {
	p, err := t.pool(name, false)
	if err != nil {
		return quota.Settlement{}, err
	}
	var done quota.Settlement
	if p.page == nil { // its windows have run out, and its row was deleted
		done.Left = max(c.Units-units, 0)
	} else {
		done = quota.SettleIn(p.page, t.now, c.Taken, units)
		if units != c.Units || p.moved() {
			err = t.save(p, nil)
		}
	}
	if err != nil {
		return quota.Settlement{}, err
	}
	calls := int64(1)
	if units == 0 && c.Units > 0 {
		calls = 0 // released: the call never left
	}
	return done, t.exec(receiptSettle, c.number, units, calls, done.Back, done.Left, done.Charged)
}
