// Package window is the arithmetic of quotas: how many units count in a window
// of time, whether more fit under a limit, and when they will. It is pure. Time
// is an argument, nothing here waits, locks or does I/O, and the same question
// at the same instant has the same answer on every machine.
//
// # Which window
//
// There are five, and most pools want two of them: a [Ring] beside a [Calendar]
// day. The calendar is what the upstream counts by; the ring keeps a full day's
// units from being spent twice within a few hours around midnight.
//
//   - A [Ring] looks back a fixed time, such as 24 hours, in buckets of one
//     precision. It never admits more than its limit in any window, and gives
//     capacity back at most one precision late. It is the default.
//   - A [Calendar] counts minutes, hours, days, weeks or months as a time zone's
//     wall clock has them, on days of 23 and of 25 hours too. Use it where the
//     upstream does, with the upstream's zone.
//   - A [Log] is a sliding window that is exact to the microsecond, for an entry
//     per distinct instant. Use it where few calls cost much, or in tests.
//   - A [Bucket] fills with every charge and drains at a steady rate. Use it where
//     the upstream has a token or leaky bucket. It lets through a burst and what
//     drains meanwhile, so it is no guard for an upstream that counts windows.
//   - A [Counter] is an estimate from two numbers. It may admit up to twice its
//     limit around a boundary, so it guards no upstream's pool; use it for
//     limits per client, where there are very many of them.
//
// A [Spec] says which window it is, and [Spec.Normal] fills in what was left
// out. Limits are not part of it: they come with each question, so that a
// changed limit applies at once.
//
// # How a ring counts
//
// Take a limit of 10 units per 60 seconds, cut into buckets of 10 seconds:
//
//	at     asked  used  answer
//	 3s        6     6  granted, into the bucket 0s-10s
//	14s        4    10  granted, into the bucket 10s-20s
//	20s        1    10  refused: free at 70s
//	20s        7    10  refused: free at 80s, the first 6 are not enough
//	63s        1    10  refused: what was used at 3s is 60s old, but the bucket
//	                    it is in may hold what was used at 9.9s
//	70s        6    10  granted: the bucket 0s-10s has left entirely
//	80s        4    10  granted: so has the next one
//
// Capacity is up to one precision late, here 7 seconds, and never early.
//
// An upstream counts a call when it arrives, and a ring when it is reserved. For calls
// that take long, [Spec.Late] keeps units for more buckets.
//
// # How a bucket counts
//
// Take a limit of 10 units, and 1 unit that drains each second:
//
//	at     asked  used  answer
//	0s        10    10  granted
//	2s         3     8  refused: free at 3s
//	2s         2    10  granted
//	2.5s       1    10  refused: used is 9.5, which counts as 10; free at 3s
//
// A call that is settled to less gives back what cannot have drained since: of 6 units
// that were too many, 4 after 2 seconds. The upstream never had those 6, so its bucket
// may have been empty for those 2 seconds while ours still drained.
//
// # Around a boundary
//
// The upstream's midnight is not ours to the second. So a calendar counts what
// comes within a lag of a boundary, by default a minute, on both sides of it:
// with a limit of 10 per day,
//
//	23:59:30   take 4 of 10   counts for today, and for tomorrow
//	00:00:30   take 6 of 10   counts for today, and for yesterday, whose 4 still
//	                          decide: no more fits
//	00:01:00                  10 are used of the new day
//
// # Clocks that step
//
// A window goes by the latest time at which it was changed. A clock that steps
// back neither frees units nor loses them; to look ahead changes nothing. A
// [Page], which is all the windows of a pool, also notices a clock that had been
// far ahead: see [Page.Now].
//
// Stores keep pages. A limiter within one process can use a window alone, under a lock:
//
//	spec, err := window.Spec{Per: time.Minute}.Normal()
//	...
//	ring := window.NewRing(spec)
//	if !ring.Take(window.At(time.Now()), cost, limit) {
//		retryAt := ring.Free(window.At(time.Now()), cost, limit)
//		...
//	}
package window
