// Package open opens a ledger by its address, with all that belongs to it:
//
//   - a journal. It records the calls that are admitted while the ledger is down: a server
//     that does not answer, or a file that another process has locked for too long. They
//     are charged when the ledger is back. The journal also records how far each pool has
//     come, so that a ledger that was lost or replaced by an older copy is noticed;
//   - a breaker, so that a server that is down does not delay every call;
//   - locks, so that no two processes run one job;
//   - blocks of units, for pools that have a lease in the price book.
//
// Most programs want this package. It imports every store, and with them the clients of
// SQLite, Redis and PostgreSQL. A program that must stay small imports the one store it needs, and
// calls [quota.New].
package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Options are what [Open] needs and can be told. Only Book is required.
type Options struct {
	// Book prices the calls: headroom.Load reads one. Nil is an error.
	Book *quota.Book
	// Clock decides in memory and in SQLite; nil is the machine's. Redis and
	// PostgreSQL go by their server's clock.
	Clock quota.Clock
	// Observer is told what the ledger does; nil: nobody is.
	Observer quota.Observer
	// State is the folder for the journal of a ledger on a server, and for the locks of
	// one in memory. A missing folder is made for a ledger on a server. The programs of a
	// machine that share a ledger should share the folder, too. Empty is [StateDir] of
	// "headroom". A ledger in SQLite has its journal and its locks beside its file.
	State string
	// Fresh trusts the ledger as it is found, and forgets what the journal remembers
	// of it. It is also set by ?fresh behind the address. False compares the two.
	Fresh bool
	// Allowance is how many units of a pool this machine may spend while the ledger is
	// down, where the price book admits calls then. Zero is [quota.DefaultAllowance]. A
	// negative number allows nothing. Divide it by the number of machines that share a ledger.
	Allowance int64
	// Flag is how errors name this ledger in commands to type; empty is " --ledger" and its address.
	Flag string
	// Logger gets one line for each warning; nil is slog.Default().
	Logger *slog.Logger
}

// Opened is a ledger with all that belongs to it. [Open] makes it.
type Opened struct {
	// Ledger grants calls. It may be used by many goroutines.
	Ledger *quota.Ledger
	// Warnings are for a person: a server that is not set up for a ledger, a ledger
	// that is a copy of another one.
	Warnings []string
	// Journal is the ledger's; nil for a ledger in memory, which has none.
	Journal *journal.Journal
	// Remembered reports whether the journal knew the ledger before it was opened. If it
	// did not, or Fresh was set, the ledger is trusted as it is found.
	Remembered bool

	locks      lease.Locker
	identified quota.Identified // nil for a ledger in memory
	closers    []func() error
	log        *slog.Logger
}

var _ lease.Locker = (*Opened)(nil)

// Open opens the ledger at an address, which [Parse] explains. If the ledger does not
// exist, Open makes it. The folder of a ledger in SQLite must exist. A server may be down:
// calls are then refused or admitted as the price book says. Call [Opened.Close] at the end.
func Open(ctx context.Context, address string, o *Options) (*Opened, error) {
	at, err := Parse(address)
	if err != nil {
		return nil, err
	}
	if o == nil || o.Book == nil {
		return nil, quota.BadInput("open a ledger: it needs a price book in Options.Book; headroom.Load reads one")
	}
	opened := &Opened{log: cmp.Or(o.Logger, slog.Default())}
	if err := opened.open(ctx, at, o); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// Store opens only the store at an address, for tools that look at a ledger or measure
// one. It has no journal and no breaker, and is trusted as it is found. A nil clock is
// the machine's.
func Store(ctx context.Context, address string, clock quota.Clock) (store quota.Store, closer func() error, err error) {
	at, err := Parse(address)
	if err != nil {
		return nil, nil, err
	}
	return at.store(ctx, clock, nil)
}

// Lock implements [lease.Locker]: it takes the lock of a job's name, for all processes
// that share the ledger. For a ledger on a server these may be on many machines.
func (o *Opened) Lock(ctx context.Context, name string) (lease.Lock, error) {
	if o == nil || o.locks == nil {
		return nil, quota.BadInput("lock %s: this ledger was not made by open.Open", name)
	}
	return o.locks.Lock(ctx, name)
}

// Close closes the ledger and its journal. A call that waits for a file or for PostgreSQL then fails, a settlement
// too, so settle first. Give locks back first.
func (o *Opened) Close() error {
	if o == nil {
		return nil
	}
	var all error
	for i := len(o.closers) - 1; i >= 0; i-- { // the last first
		all = errors.Join(all, o.closers[i]())
	}
	o.closers = nil
	return all
}

func (o *Opened) open(ctx context.Context, at *Address, with *Options) error {
	options := &quota.Options{
		Clock: cmp.Or[quota.Clock](with.Clock, quota.SystemClock{}), Observer: with.Observer, Allowance: with.Allowance, Flag: cmp.Or(with.Flag, at.Flag()),
	}
	var store quota.Store
	var err error
	switch at.Scheme {
	case "memory":
		store, err = o.openMemory(ctx, at, with)
	case "sqlite":
		store, err = o.openFile(ctx, at, with)
	default:
		store, err = o.openServer(ctx, at, with)
	}
	if err != nil {
		return err
	}
	if o.Journal != nil {
		options.Journal = o.Journal
	}
	if at.Scheme != "memory" { // which one process has for itself
		leased := leasestore.New(store, nil)
		o.closers = append(o.closers, leased.Close)
		store, o.identified = leased, leased
	}
	if o.Ledger, err = quota.New(with.Book, store, options); err != nil || o.Journal == nil {
		return err
	}
	return o.settleIn(ctx, options.Clock.Now())
}

// Older returns the schema of a ledger in a file, or of its journal, if it is older than that of this
// version. To open the ledger would change it. If there is no ledger, the error is fs.ErrNotExist.
func (a *Address) Older(ctx context.Context) (schema int64, older bool, err error) {
	switch {
	case a == nil || a.Scheme == "":
		return 0, false, quota.BadInput("this address was not made by open.Parse")
	case a.Scheme != "sqlite":
		return 0, false, nil
	}
	if schema, older, err = sqlitestore.Older(ctx, a.File); older || err != nil {
		return schema, older, err
	}
	beside, err := a.Journal("")
	if err != nil {
		return 0, false, err
	}
	if schema, older, err = journal.Older(ctx, beside); errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil // a new one is made
	}
	return schema, older, err
}

// store opens the store alone, which remembers its pages in births.
func (a *Address) store(ctx context.Context, clock quota.Clock, births storekit.BirthKeeper) (store quota.Store, closer func() error, err error) {
	switch a.Scheme {
	case "memory":
		return memstore.New(&memstore.Options{Clock: clock}), func() error { return nil }, nil
	case "sqlite":
		return closing(sqlitestore.Open(ctx, a.File, &sqlitestore.Options{Clock: clock, Births: births, Families: true})) // for those who reserve over HTTP
	case "postgres":
		return closing(pgstore.Open(a.String(), &pgstore.Options{Births: births}))
	}
	return closing(redisstore.Open(a.String(), &redisstore.Options{Births: births}))
}

// closing returns a store that was opened, and what closes it.
func closing[S interface {
	quota.Store
	Close() error
}](s S, err error) (quota.Store, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// openMemory opens a ledger in memory. It is not compared with anything, but jobs may
// share a catalog, so they are locked all the same.
func (o *Opened) openMemory(ctx context.Context, at *Address, with *Options) (quota.Store, error) {
	o.locks = lease.Files("")
	if state, err := with.state(); err == nil {
		o.locks = lease.Files(filepath.Join(state, "locks"))
	}
	store, _, err := at.store(ctx, with.Clock, nil)
	return store, err
}

// openKept opens the journal at path, and the store that remembers its pages there.
func (o *Opened) openKept(ctx context.Context, at *Address, with *Options, path string) (quota.Store, error) {
	ledger, err := at.canonical()
	if err != nil {
		return nil, err
	}
	if err := o.openJournal(ctx, path, ledger, with.Fresh || at.Fresh); err != nil {
		return nil, err
	}
	store, closer, err := at.store(ctx, with.Clock, o.Journal)
	if err == nil {
		o.closers = append(o.closers, closer)
	}
	return store, err
}

// openFile opens a ledger in a file. A busy file is waited for, so it has no breaker.
func (o *Opened) openFile(ctx context.Context, at *Address, with *Options) (quota.Store, error) {
	beside, err := at.Journal("")
	if err != nil {
		return nil, err
	}
	o.locks = lease.Files(filepath.Join(filepath.Dir(beside), "locks"))
	_, missing := os.Stat(beside)
	store, err := o.openKept(ctx, at, with, beside)
	if err != nil {
		return nil, err
	}
	o.tellKept("ledger", store.(*sqlitestore.Store).Kept())
	other, err := store.(*sqlitestore.Store).CopyOf(ctx)
	if err != nil {
		return nil, err
	}
	if other != "" {
		o.warn("this ledger is a copy of %s: neither counts what is spent of the other; delete one of them", other)
	}
	info, err := os.Stat(at.File)
	if err == nil && missing != nil { // a user who can open the ledger can open its journal
		err = os.Chmod(beside, info.Mode().Perm())
	}
	return store, err
}

// server is what the stores on a server have in common.
type server interface {
	lease.Server
	Check(ctx context.Context) (warnings []string, err error)
}

// canonical returns the one way to write where a ledger is.
func (a *Address) canonical() (string, error) {
	switch a.Scheme {
	case "sqlite":
		return sqlitestore.Canonical(a.File)
	case "postgres":
		return pgstore.Canonical(a.String())
	}
	return redisstore.Canonical(a.String(), "")
}

// openServer opens a ledger that may be out of reach, behind a breaker.
func (o *Opened) openServer(ctx context.Context, at *Address, with *Options) (quota.Store, error) {
	state, err := with.state()
	if err != nil {
		return nil, fmt.Errorf("%w, or name a folder for the journal in Options.State", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the state: %w", err)
	}
	path, err := at.Journal(state)
	if err != nil {
		return nil, err
	}
	store, err := o.openKept(ctx, at, with, path)
	if err != nil {
		return nil, err
	}
	server := store.(server)
	where, err := at.canonical()
	if err != nil {
		return nil, err
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(where))
	o.locks = lease.Shared{Server: server, Files: lease.Files(filepath.Join(state, fmt.Sprintf("locks-%08x", sum.Sum32())))} // of this ledger
	warnings, err := server.Check(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, ok := errors.AsType[*pgstore.RightsError](err); ok { // it would never work
		return nil, err
	}
	if err != nil {
		o.log.Warn("the ledger does not answer; calls are admitted or refused as the price book says", "error", err)
	}
	for _, w := range warnings {
		o.log.Warn("the ledger's server is not set up for it", "setting", w)
	}
	o.Warnings = append(o.Warnings, warnings...)
	broken := breaker.New(store, nil)
	o.closers = append(o.closers, broken.Close)
	return broken, nil
}

// state is the folder of what is kept outside the ledger.
func (o *Options) state() (string, error) {
	if o.State != "" {
		return o.State, nil
	}
	return StateDir("headroom")
}

// Identity returns the identity of the ledger that holds an account's pools; empty for a ledger
// in memory. Two addresses with one identity are one ledger, or one is a copy of the other.
func (o *Opened) Identity(ctx context.Context, upstream, account string) (string, error) {
	if o == nil || o.Ledger == nil {
		return "", quota.BadInput("identity of %s@%s: this ledger was not made by open.Open", upstream, account)
	}
	if o.identified == nil {
		return "", nil
	}
	return o.identified.Identity(ctx, upstream, account)
}
