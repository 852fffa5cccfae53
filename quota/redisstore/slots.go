package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// slotsAtOnce bounds the receipts of one script, and so how long it holds up the server.
const slotsAtOnce = 256

// Slots implements [quota.Store]. Each account takes three round trips: the receipts say
// which pages, the pages say how they are laid out. A receipt without slots, which is renewed
// every half hour at most, takes one of its own.
func (s *Store) Slots(ctx context.Context, tokens []quota.Token, done bool) ([]bool, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	accounts := map[quota.Pool][]int{} // the numbers of their tokens
	for i, t := range tokens {
		p := quota.Pool{Upstream: t.Upstream, Account: t.Account}
		accounts[p] = append(accounts[p], i)
	}
	held := make([]bool, len(tokens))
	var failed []error
	for p, all := range accounts {
		for some := range slices.Chunk(all, slotsAtOnce) {
			if err := s.slots(ctx, p, tokens, some, done, held); err != nil {
				failed = append(failed, err)
			}
		}
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return held, nil
}

func (s *Store) slots(ctx context.Context, account quota.Pool, tokens []quota.Token, some []int, done bool, held []bool) error {
	tag := s.tag(account)
	texts, err := s.receipts(ctx, tag, tokens, some)
	if err != nil {
		return err
	}
	a := &ask{store: s, script: s.scripts.slots, tag: tag, first: poolsKey(tag), kept: true}
	var asked []int
	var failed []error
	args := []any{flag(done)}
	laidOut := map[string]bool{} // by page: whether it has slots
	others := map[string]bool{}  // pages of what is settled later
	for k, i := range some {
		all, _ := chargesOf(tag, tokens[i], texts[k])
		any := false
		for j := range all {
			page := all[j].page
			if all[j].day != slotTaken {
				others[page] = !done
				continue
			}
			slots, known := laidOut[page]
			if !known {
				c, err := s.laidOut(ctx, &all[j])
				if _, gone := errors.AsType[*quota.ForgottenError](err); gone && all[j].pool.Key != "" && !done {
					c, err = s.laidOutLike(ctx, tag, all[j])
				}
				switch {
				case err == nil:
					if slots = c.Windows[0].Spec.InFlight(); slots { // else the price book has changed
						a.charges = append(a.charges, c)
					}
				case all[j].pool.Key == "": // else it was idle
					failed = append(failed, err) // the others must not wait for it
				}
				laidOut[page] = slots
			}
			any = any || slots
		}
		if !any && !done {
			if err := s.renew(ctx, tag, tokens[i], all); err != nil {
				failed = append(failed, err)
			}
		}
		if any {
			asked = append(asked, i)
			a.more = append(a.more, receiptKey(tag, tokens[i].ID))
			args = append(args, tokens[i].Nonce[:], len(all))
		}
	}
	if len(asked) == 0 {
		s.touch(ctx, others)
		return errors.Join(failed...)
	}
	a.extra = args
	reply, err := a.run(ctx)
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	for k, i := range asked {
		held[i] = integer(reply[2+k]) == 1
	}
	s.touch(ctx, others)
	return errors.Join(append(failed, s.remember(ctx, a, reply[2+len(asked):]))...)
}

// renew prolongs the receipt of a token without slots, or for a part that of the whole.
func (s *Store) renew(ctx context.Context, tag string, t quota.Token, found []charged) error {
	if found == nil {
		_, whole, _, err := s.whole(ctx, tag, &t)
		switch {
		case errors.Is(err, quota.ErrNoReceipt):
			return nil
		case err != nil:
			return err
		}
		t = whole
	}
	_, err := s.eval(ctx, s.scripts.renew, []string{receiptKey(tag, t.ID)}, []any{t.Nonce[:], quota.ReceiptLife.Milliseconds()})
	return err
}

// laidOutLike is laidOut for the page of a key that has made room for another one: its slots are
// taken again. The other pages of the pool say how it is laid out: one of them was made since.
func (s *Store) laidOutLike(ctx context.Context, tag string, of charged) (quota.Charge, error) {
	seats, err := value(ctx, s, redis.NewStringSliceCmd(ctx, "zrevrange", seatsKey(tag, of.pool.Name), 0, 3))
	if err != nil {
		return quota.Charge{}, err
	}
	var c quota.Charge
	for _, key := range append(seats, overflowKey) {
		like := of
		like.pool.Key = poolOf(key)
		like.page = pageOf(tag, like.pool)
		if c, err = s.laidOut(ctx, &like); err == nil {
			break
		}
	}
	c.Pool = of.pool
	return c, err
}

// touch keeps the other pages of receipts that were renewed. If it fails, the next renewal
// tries again.
func (s *Store) touch(ctx context.Context, pages map[string]bool) {
	for page, keep := range pages {
		if !keep {
			continue
		}
		keys := []string{page}
		for i := range book.MaxWindows {
			keys = append(keys, logKey(page, i))
		}
		_, _ = s.eval(ctx, s.scripts.touch, keys, []any{(quota.ReceiptLife + margin).Milliseconds()})
	}
}

// receipts reads the receipts of tokens. A missing receipt is "".
func (s *Store) receipts(ctx context.Context, tag string, tokens []quota.Token, some []int) ([]string, error) {
	cmds := make([]redis.Cmder, len(some))
	for k, i := range some {
		cmds[k] = redis.NewStringCmd(ctx, "get", receiptKey(tag, tokens[i].ID))
	}
	if err := s.doAll(ctx, cmds); err != nil {
		return nil, err
	}
	texts := make([]string, len(some))
	for k, cmd := range cmds {
		texts[k] = cmd.(*redis.StringCmd).Val()
	}
	return texts, nil
}
