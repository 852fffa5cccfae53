package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer starts PgBouncer in transaction mode in front of the server, and returns its host and
// port. It ends with the test.
func (s *Server) Bouncer(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian keeps it out of the PATH of users
	}
	port := freePort()
	_, server, _ := net.SplitHostPort(s.Addr)
	write := func(name, text string) string {
		path := filepath.Join(s.dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), own(path)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	users := write("users.txt", fmt.Sprintf("%q \"\"\n", superuser))
	settings := write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
server_login_retry = 1
query_wait_timeout = 20
`, server, port, users))
	cmd := s.command("postgres", "-q", settings)
	cmd.Path, cmd.Args[0] = program, program
	said := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = said, said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	ended := make(chan error, 1)
	started := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		runtime.LockOSThread() // it ends with this thread
		endWithThread(cmd.SysProcAttr)
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
			<-stop
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("pgbouncer: %v\nTo install it: make acceptance, or apt-get install pgbouncer", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended //nolint:errcheck // it was killed
		close(stop)
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	url := strings.Replace(s.URL("postgres"), s.Addr, address, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		config, err := pgx.ParseConfig(url)
		if err == nil {
			config.DefaultQueryExecMode = pgx.QueryExecModeExec
			var c *pgx.Conn
			if c, err = pgx.ConnectConfig(ctx, config); err == nil {
				err = errors.Join(c.Ping(ctx), c.Close(ctx))
			}
		}
		if err == nil {
			return address
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("pgbouncer: %v\n%s", err, said)
		case <-ctx.Done():
			t.Fatalf("pgbouncer does not answer: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
