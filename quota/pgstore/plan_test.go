package pgstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// explain returns the plan of a statement for these arguments.
func explain(t *testing.T, c *pgx.Conn, statement string, args ...any) string {
	t.Helper()
	rows, err := c.Query(t.Context(), "EXPLAIN "+statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Idle members are found without passing over the keys that have limits of their own, of
// which there may be a million.
func TestKeysWithLimitsAreNotSearched(t *testing.T) {
	url := pgtest.Shared(t)
	if _, err := openAt(t, url, nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := session(t, url)
	for _, sql := range []string{
		`INSERT INTO headroom_ledger.members (upstream, account, pool, key, windows, used, written, page, listed, reason)
			SELECT 'client', 'default', '', 'key' || n, '', '', n, '', n <= 10000, '' FROM generate_series(1, 11000) AS n`,
		"ANALYZE headroom_ledger.members",
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	plan := explain(t, c, pgstore.Statement("oldest"), []string{"client"}, []string{"default"}, []string{""})
	if !strings.Contains(plan, "Index Scan using members_with_a_place ") || strings.Contains(plan, "NOT listed") {
		t.Errorf("the oldest member is found by\n%s", plan)
	}
}

// Plans that the server made while the tables were small serve when they are large: rows are
// looked up by their keys.
func TestPlansOutliveSmallTables(t *testing.T) {
	url := pgtest.Shared(t)
	if _, err := openAt(t, url, nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := session(t, url)
	if _, err := c.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]string{
		"page": "'', '', ''", "pages": "'{}', '{}', '{}'", "receipts": "'{}', '{}', '{}'", "receipt_pages": "'{}', '{}', '{}'",
		"families": "'{}', '{}', '{}'", "members": "'{}', '{}', '{}', '{}'", "settle": "1, 1, 1, 1, 1, 1", "keep": "1, 1, 1, 1, 1",
		"charge_add":   "'', '', '', 1, 1, 1, 1, '', '', '', '', 1, '', '', 1, 1, '', 1, 1, 1, '', '', '', '', ''",
		"charges_add":  "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'",
		"settle_parts": "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'",
	} {
		if _, err := c.Exec(t.Context(), "PREPARE "+name+" AS "+pgstore.Statement(name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if plan := explain(t, c, "EXECUTE "+name+"("+args+")"); strings.Contains(plan, "Seq Scan on") {
			t.Errorf("%s reads a table:\n%s", name, plan)
		}
	}
}

// A charge whose page is gone leaves no row: the caller gets an error, and the pool is forgotten.
func TestAChargeNeedsItsPage(t *testing.T) {
	url := pgtest.Shared(t)
	if _, err := openAt(t, url, nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := session(t, url)
	tag, err := c.Exec(t.Context(), pgstore.Statement("charge_add"), "api", "a", "units", 1, 1, 1, 0, "", "", "", []byte{},
		1, "id", []byte{}, 1, 1, "2026-11-23", 1, 1, 1, "", "", "", "", "")
	if err != nil || tag.RowsAffected() != 0 {
		t.Errorf("%s, %v; want no rows", tag, err)
	}
	if n := ask[int](t, c, "SELECT count(*) FROM headroom_ledger.reservations"); n != 0 {
		t.Errorf("%d charges were stored", n)
	}
}
