package storetest

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/headroom-quota/headroom/quota"
)

// linearOp is an operation of the pool.
type linearOp int

const (
	linearReserve linearOp = iota
	linearSettle           // to nothing, it is a release
	linearLook
)

// linearIDs is how many ids the callers share.
const linearIDs = 6

// linearCall is one call to the pool.
type linearCall struct {
	op    linearOp
	id    int
	units int64
	nonce [16]byte // of the token to settle
}

// name returns the id that a store sees.
func (c linearCall) name() string { return string(rune('a' + c.id)) }

func (c linearCall) String() string {
	switch c.op {
	case linearReserve:
		return fmt.Sprintf("reserve %d as %s", c.units, c.name())
	case linearSettle:
		return fmt.Sprintf("settle %s %x to %d", c.name(), c.nonce[:2], c.units)
	}
	return "look"
}

// linearAnswer holds the parts of an answer that must be right.
type linearAnswer struct {
	bad        bool // input
	allowed    bool
	repeat     bool
	used       int64
	nonce      [16]byte
	settlement quota.Settlement
}

// linearState is a pool whose clock stands still: one number, and receipts.
type linearState struct {
	used     int64
	receipts [linearIDs]linearReceipt
}

type linearReceipt struct {
	nonce    [16]byte // zero: there is no receipt
	taken    int64
	settled  bool
	released bool // settled to nothing: the id is decided afresh
	result   quota.Settlement
}

// linearPool is the model of a pool that answers one call at a time. It covers promises
// 1, 6 and 7 while no time passes.
var linearPool = porcupine.Model{
	Init: func() any { return linearState{} },
	Step: func(state, input, output any) (bool, any) {
		s, call, answer := state.(linearState), input.(linearCall), output.(linearAnswer)
		want := s.answer(call, answer.nonce)
		return answer == want, s
	},
	Hash:              func(state any) uint64 { return maphash.Comparable(linearSeed, state.(linearState)) },
	DescribeOperation: func(input, output any) string { return describeLinear(input.(linearCall), output.(linearAnswer)) },
	DescribeState:     func(state any) string { return state.(linearState).String() },
}

var linearSeed = maphash.MakeSeed()

// answer returns the pool's answer to a call, and changes the pool. A new grant has the
// nonce that the store chose.
func (s *linearState) answer(call linearCall, nonce [16]byte) linearAnswer {
	receipt := &s.receipts[call.id]
	switch call.op {
	case linearReserve:
		return s.reserve(call.units, receipt, nonce)
	case linearSettle:
		return s.settle(call, receipt)
	}
	return linearAnswer{used: s.used}
}

func (s *linearState) reserve(units int64, receipt *linearReceipt, nonce [16]byte) linearAnswer {
	none := [16]byte{}
	switch {
	case receipt.nonce != none && units != receipt.taken:
		return linearAnswer{bad: true}
	case receipt.nonce != none && !receipt.released:
		return linearAnswer{allowed: true, repeat: true, used: s.used, nonce: receipt.nonce}
	case s.used+units > linearLimit:
		return linearAnswer{used: s.used}
	case nonce == none || nonce == receipt.nonce:
		return linearAnswer{} // no store may say that
	}
	s.used += units
	*receipt = linearReceipt{nonce: nonce, taken: units}
	return linearAnswer{allowed: true, used: s.used, nonce: nonce}
}

func (s *linearState) settle(call linearCall, receipt *linearReceipt) linearAnswer {
	if call.nonce != receipt.nonce {
		return linearAnswer{bad: true}
	}
	if receipt.settled {
		again := receipt.result
		again.Repeat = true
		return linearAnswer{settlement: again}
	}
	over := receipt.taken - call.units
	s.used -= over
	receipt.settled, receipt.released = true, call.units == 0
	receipt.result = quota.Settlement{Back: max(over, 0), Charged: max(-over, 0)}
	return linearAnswer{settlement: receipt.result}
}

func describeLinear(call linearCall, answer linearAnswer) string {
	said := "refused"
	switch {
	case answer.bad:
		return fmt.Sprintf("%s: bad input", call)
	case call.op == linearLook:
		return fmt.Sprintf("%s: %d/%d", call, answer.used, linearLimit)
	case call.op == linearSettle:
		return fmt.Sprintf("%s: %s", call, tellSettled(answer.settlement, nil))
	case answer.repeat:
		said = "granted again"
	case answer.allowed:
		said = "granted"
	}
	if answer.allowed {
		said += fmt.Sprintf(" %x", answer.nonce[:2])
	}
	return fmt.Sprintf("%s: %s %d/%d", call, said, answer.used, linearLimit)
}

func (s linearState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d used", s.used)
	for id, receipt := range s.receipts {
		if receipt.nonce == [16]byte{} {
			continue
		}
		fmt.Fprintf(&b, ", %s %x took %d", linearCall{id: id}.name(), receipt.nonce[:2], receipt.taken)
		if receipt.settled {
			fmt.Fprintf(&b, " and settled (%s)", tellSettled(receipt.result, nil))
		}
	}
	return b.String()
}
