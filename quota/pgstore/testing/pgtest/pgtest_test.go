//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

func TestMain(m *testing.M) {
	childtest.Main(m, map[string]childtest.Task{"server": func(_ string, begin func() bool, out io.Writer) error {
		s, err := Open(Fast...)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, s.cmd.Process.Pid)
		fmt.Fprintln(out, s.dir)
		begin()
		return nil
	}})
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestSharedDatabasesAreApart(t *testing.T) {
	for range 2 {
		if _, err := connect(t, Shared(t)).Exec(t.Context(), "CREATE TABLE one (n int)"); err != nil {
			t.Error(err)
		}
	}
}

func TestPreparedDatabasesAreApart(t *testing.T) {
	times := 0
	one := Prepare(func(url string) error {
		times++
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		_, err = c.Exec(t.Context(), "CREATE TABLE one (n int PRIMARY KEY)")
		return errors.Join(err, c.Close(t.Context()))
	})
	for range 2 {
		if _, err := connect(t, one.Shared(t)).Exec(t.Context(), "INSERT INTO one VALUES (1)"); err != nil {
			t.Error(err)
		}
	}
	if times != 1 {
		t.Errorf("it was prepared %d times", times)
	}
}

func TestServerKeepsItsDataAndAddress(t *testing.T) {
	s := Start(t)
	if err := s.Exec("CREATE TABLE rows (n int)"); err != nil {
		t.Fatal(err)
	}
	for i, end := range []func(){s.Stop, s.Crash, s.Kill} {
		if err := s.Exec("INSERT INTO rows VALUES ($1)", i); err != nil {
			t.Fatal(err)
		}
		open := connect(t, s.URL("postgres")) // an open session does not keep the server up
		end()
		if err := open.Ping(t.Context()); err == nil && i < 2 {
			t.Errorf("end %d: the server still answers", i)
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := connect(t, s.URL("postgres")).QueryRow(t.Context(), "SELECT count(*) FROM rows").Scan(&n); err != nil || n != i+1 {
			t.Errorf("end %d: %d rows: %v, want %d", i, n, err, i+1)
		}
	}
	s.Close()
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

// Also a test process that is killed leaves nothing running.
func TestServerEndsWithItsProcess(t *testing.T) {
	c := childtest.Run(t, "server", "")
	var pid int
	if _, err := fmt.Sscan(c.Line(), &pid); err != nil {
		t.Fatal(err)
	}
	dir := c.Line()
	if syscall.Kill(pid, 0) != nil {
		t.Fatal("the server does not run")
	}
	if line := c.Line(); line != "ready" {
		t.Fatal(line)
	}
	c.Kill()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(dir); os.IsNotExist(err) && syscall.Kill(pid, 0) != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server or its folder is left")
		}
	}
}
