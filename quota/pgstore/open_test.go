package pgstore_test

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

const secret = "hunter2/?#@"

// No error has a password, whatever is wrong.
func TestErrorsHoldNoPassword(t *testing.T) {
	good, err := url.Parse(pgtest.Shared(t))
	if err != nil {
		t.Fatal(err)
	}
	pass := url.UserPassword("nobody", secret)
	for name, address := range map[string]string{
		"a server that is down":   (&url.URL{Scheme: "postgres", User: pass, Host: "127.0.0.1:1", Path: "/db"}).String(),
		"a user who is not there": (&url.URL{Scheme: "postgres", User: pass, Host: good.Host, Path: good.Path, RawQuery: good.RawQuery}).String(),
		"a broken port":           "postgres://nobody:" + url.QueryEscape(secret) + "@127.0.0.1:port/db",
		"a broken escape":         "postgres://nobody:" + secret + "%zz@127.0.0.1/db",
		"an @ in a password":      "postgres://nobody:" + secret + "@127.0.0.1/db",
		"a broken option":         "postgres://nobody@127.0.0.1/db?sslmode=" + url.QueryEscape(secret) + "&password=" + url.QueryEscape(secret),
		"a broken pool":           "postgres://127.0.0.1/db?pool_max_conns=no&password=" + url.QueryEscape(secret),
		"a broken mode":           "postgres://127.0.0.1/db?default_query_exec_mode=no&password=" + url.QueryEscape(secret),
		"no URL":                  "host=127.0.0.1 password=" + secret,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := pgstore.Open(address, &pgstore.Options{Timeout: testTimeout})
			if err == nil {
				_, err = s.Reserve(t.Context(), request("a", "a", 1))
				if _, checked := s.Check(t.Context()); checked == nil {
					t.Error("Check has found nothing")
				} else {
					err = errors.Join(err, checked)
				}
				_ = s.Close()
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), "hunter2"} {
				if strings.Contains(err.Error(), form) || strings.Contains(fmt.Sprintf("%+v", err), form) {
					t.Errorf("the error holds the password: %v", err)
				}
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://me:secret@LOCALHOST/ledger?sslmode=disable": "postgres://localhost:5432/ledger",
		"postgresql://localhost:5432/ledger":                    "postgres://localhost:5432/ledger",
		"postgres://b:5433,a/ledger":                            "postgres://a:5432,b:5433/ledger",
		"postgres://me@/ledger?host=/run/postgresql":            "postgres:///ledger?host=%2Frun%2Fpostgresql%2F.s.PGSQL.5432",
	} {
		if got, err := pgstore.Canonical(address); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", address, got, err, want)
		}
	}
}

// Behind PgBouncer, no prepared statement may outlive a transaction.
func TestWaysToAsk(t *testing.T) {
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := openAt(t, pgtest.Shared(t)+"&default_query_exec_mode="+mode, nil)
			r := request("a", "a", 3)
			r.Labels.Method = "videos.list"
			v, err := s.Reserve(t.Context(), r)
			if err != nil || v.Used != 3 {
				t.Fatalf("%+v, %v", v, err)
			}
			if v, err := s.Reserve(t.Context(), r); err != nil || !v.Repeat {
				t.Errorf("again: %+v, %v", v, err)
			}
			if done, err := s.Settle(t.Context(), v.Token(), quota.Units{"units": 1}); err != nil || done.Back != 2 {
				t.Errorf("settled: %+v, %v", done, err)
			}
			keyed := request("k", "a", 1)
			keyed.Charges[0].Pool.Name, keyed.Charges[0].Pool.Key, keyed.Charges[0].MaxKeys = "keyed", "key", 1
			if v, err := s.Reserve(t.Context(), keyed); err != nil || v.Used != 1 {
				t.Errorf("keyed: %+v, %v", v, err)
			}
			keyed.ID, keyed.Charges[0].Pool.Key = "l", "other"
			if v, err := s.Reserve(t.Context(), keyed); err != nil || !v.Overflow {
				t.Errorf("a key too many: %+v, %v", v, err)
			}
			if keys, n, err := s.Keys(t.Context(), keyed.Charges[0].Pool, 9); err != nil || n != 1 || keys[0] != "key" {
				t.Errorf("keys %v of %d, %v", keys, n, err)
			}
			spent, err := s.Spend(t.Context(), quota.SpendQuery{Upstream: "api", Account: "a"})
			if err != nil || len(spent) != 2 {
				t.Errorf("spent %+v, %v", spent, err)
			}
		})
	}
}

// A user without a right is told which, and what to type. The statements are enough.
func TestRights(t *testing.T) {
	server := pgtest.Start(t, pgtest.Fast...)
	at := server.URL("postgres")
	owner := session(t, at)
	if _, err := owner.Exec(t.Context(), `CREATE ROLE worker LOGIN`); err != nil {
		t.Fatal(err)
	}
	worker := strings.Replace(at, "postgres://headroom@", "postgres://worker@", 1)
	granted := func(want ...string) {
		t.Helper()
		_, err := openAt(t, worker, nil).Check(t.Context())
		lacks, ok := errors.AsType[*pgstore.RightsError](err)
		if !ok {
			t.Fatalf("Check: %v", err)
		}
		if got := strings.Join(lacks.Grants, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("it names\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		for _, g := range lacks.Grants {
			if _, err := owner.Exec(t.Context(), g, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Errorf("%s: %v", g, err)
			}
		}
	}
	granted("GRANT CREATE ON DATABASE postgres TO worker;")
	if _, err := owner.Exec(t.Context(), "REVOKE CREATE ON DATABASE postgres FROM worker"); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, at, nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, worker, nil).Reserve(t.Context(), request("a", "a", 1)); err == nil || !strings.Contains(err.Error(), "ingestor check") {
		t.Errorf("without any right: %v", err)
	}
	granted("GRANT USAGE ON SCHEMA headroom_ledger TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.births TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.families TO worker;",
		"GRANT SELECT ON headroom_ledger.identity TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.leases TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.limit_changes TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.limits TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.members TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.notes TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.pools TO worker;",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON headroom_ledger.reservations TO worker;",
		"GRANT SELECT ON headroom_ledger.schema_version TO worker;")
	s := openAt(t, worker, nil)
	warnings, err := s.Check(t.Context())
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "fsync") {
		t.Errorf("with all rights: %q, %v; want the warnings about this server's settings", warnings, err)
	}
	if v, err := s.Reserve(t.Context(), request("a", "a", 1)); err != nil || v.Used != 1 {
		t.Errorf("with all rights: %+v, %v", v, err)
	}
	if _, err := s.TakeLease(t.Context(), "job", "worker", time.Minute); err != nil {
		t.Error(err)
	}
}

// A page that was deleted is no empty pool, and neither is a database.
func TestLossIsNoticed(t *testing.T) {
	at := pgtest.Shared(t)
	s := openAt(t, at, nil)
	if _, err := s.Reserve(t.Context(), request("a", "a", 4)); err != nil {
		t.Fatal(err)
	}
	c := session(t, at)
	if _, err := c.Exec(t.Context(), "DELETE FROM headroom_ledger.pools"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve(t.Context(), request("b", "a", 1)); !errors.Is(err, quota.ErrOutage) {
		t.Errorf("its page is gone: %v", err)
	}
	restore := request("c", "a", 4)
	restore.Restore = true
	if _, err := s.Record(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Reserve(t.Context(), request("d", "a", 1)); err != nil || v.Used != 5 {
		t.Errorf("put back: %+v, %v", v, err)
	}

	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "postgres://here")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	remembers := &pgstore.Options{Births: j, Timeout: testTimeout}
	one, err := pgstore.Open(at, remembers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Reserve(t.Context(), request("e", "a", 1)); err != nil {
		t.Fatal(err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "DROP SCHEMA headroom_ledger CASCADE"); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, at, remembers).Reserve(t.Context(), request("f", "a", 1)); !errors.Is(err, quota.ErrOutage) {
		t.Errorf("all is gone: %v", err)
	}
}

// Charges are kept for their days, and then deleted, unless the clock has jumped.
func TestOldChargesAreDeleted(t *testing.T) {
	clock := storetest.NewClock()
	at := pgtest.Shared(t)
	s := openAt(t, at, &pgstore.Options{Clock: clock, Timeout: testTimeout})
	began := clock.Now()
	charge := func(id string, after time.Duration) {
		t.Helper()
		clock.Set(began.Add(after))
		if _, err := s.Reserve(t.Context(), request(id, "a", 1)); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	charge("a", 0)
	clock.Set(began.Add(40 * day))
	if n := pgstore.Prune(s); n != 0 {
		t.Errorf("after a jump of the clock it deleted %d", n)
	}
	clock.Set(began)
	charge("b", 20*day)
	clock.Set(began.Add(40 * day))
	if n := pgstore.Prune(s); n > 1 || ask[int](t, session(t, at), "SELECT count(*) FROM headroom_ledger.reservations") != 1 {
		t.Errorf("it deleted %d, want the older one to be gone", n)
	}

	charge("c", 400*day) // the clock has jumped
	charge("d", 400*day+2*time.Hour)
	ahead := clock.Now()
	charge("e", 40*day) // and was set back, while a process still deletes
	if n := pgstore.PruneAt(s, ahead); n != 0 {
		t.Errorf("by a clock that was set back since, it deleted %d", n)
	}
}

// A name that PostgreSQL cannot hold is bad input for its own call.
func TestNamesThatAreNoText(t *testing.T) {
	s := openAt(t, pgtest.Shared(t), nil)
	for _, bad := range []string{"a\x00b", "\xff"} {
		r := request("id", "a", 1)
		r.Charges[0].Pool.Name = bad
		if _, err := s.Reserve(t.Context(), r); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("a pool %q: %v", bad, err)
		}
		if _, err := s.Settle(t.Context(), quota.Token{Upstream: "api", Account: bad, ID: bad}, nil); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("a token %q: %v", bad, err)
		}
		if _, err := s.Spend(t.Context(), quota.SpendQuery{Upstream: bad}); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("spend %q: %v", bad, err)
		}
		if states, err := s.Look(t.Context(), []quota.Charge{{Pool: quota.Pool{Upstream: "api", Account: "a", Name: bad}, Windows: []window.Limit{r.Charges[0].Windows[0]}}}); err == nil && states[0].Known {
			t.Errorf("look at %q: %+v", bad, states)
		}
	}
}
