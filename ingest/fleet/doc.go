// Package fleet runs the jobs of package ingest on many machines. PostgreSQL holds the
// catalog and the queue, and River (github.com/riverqueue/river) works the queue.
//
// # Ticks
//
// Every daemon computes the times of the schedules by the clock of the database. A time of a
// schedule is one row of the table runs, and whoever inserts the row inserts its units of
// work in the same transaction. So each time has one run, whatever number of daemons there
// are. The rows are kept for 90 days. River's own periodic jobs are not used: they lose ticks
// while their leader is replaced.
//
// # Work
//
// A unit of work has at most one unfinished job in River. A later run of the same work joins
// that job. The worker takes a step of [ingest.Run] for at most 90 seconds, and then gives
// the job back, because River takes jobs over only by their age. It never waits for units:
// it gives the job back until the ledger has them.
//
// A run keeps everything in rows: its state, the units it spent, and the tally of each unit of
// work. They change in the transaction that saves a page. That transaction begins with a
// fence: a worker whose job was taken over changes nothing, and ends with a plain error.
// River applies the result of a worker by the id of the job alone, so a worker that lost its
// job must not complete, cancel or snooze it.
//
// River takes over work by its age alone, which is that of a whole slice. So each daemon also
// lets work go on that is held by a daemon which has not been seen for 20 seconds.
//
// # What River has and this package does not use
//
// This was compared with the source of River 0.51.1.
//
//	periodic jobs      the open-source leader keeps the next time in memory, and a new leader counts
//	                   from its own start: ticks between two leaders are lost
//	rescue by age      it takes as long as a slice, and cannot tell a slow worker from a dead one;
//	                   it stays as the last resort, and for programs
//	attempts, backoff  a refusal is no failure: work waits for the time that the ledger names. An
//	                   attempt counts only if the worker was fenced or a store failed. 30,000 of
//	                   them, near the most that River's column holds, take hours; mend then inserts anew
//	one job per tick   work that waits for units would pile up; later ticks join its job instead
//	job timeouts       a step ends between two pages, so that what was paid for is saved. River never
//	                   rescues a job without a timeout, so a program says again and again that it runs
//	resumable steps    River keeps the position in its job. That of work outlives its jobs: it is the
//	                   cursor of the catalog, which a single machine has, too
//	pauses of queues   River forgets that of a queue that nobody works for a day
//	polls              River asks for each queue, so the load grows with daemons times jobs. A daemon
//	                   asks for all of them at once, every 5 s, for work of which nobody told: River
//	                   tells nobody when a short snooze ends
//
// River deletes finished jobs after a day. Nothing depends on them: the rows of this package
// say what was done.
package fleet
