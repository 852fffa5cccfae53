package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the role that owns a server. It needs no password.
const superuser = "headroom"

// Server is one PostgreSQL server with its data in a temporary folder.
type Server struct {
	Addr string // its host and port, the same after a restart

	dir      string
	programs string // the folder of initdb and postgres
	settings []string
	cmd      *exec.Cmd // nil while the server is down
	ended    chan error
	guard    *guard
}

// Open starts a server that has no test. The caller closes it.
func Open(settings ...string) (_ *Server, err error) {
	programs, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "headroom-postgres")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, programs: programs, settings: settings}
	if s.guard, err = watch(dir); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := own(dir); err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	for range 10 { // another process may take the port
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort()))
		if err = s.run(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// find returns the folder of the server's programs. Debian does not put them in the PATH.
func find() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err == nil && len(all) == 0 {
		err = errors.New("postgres is not installed: make test installs it, or apt-get install postgresql")
	}
	if err != nil {
		return "", err
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(all, func(a, b string) int { return cmp.Compare(version(a), version(b)) })), nil
}

// freePort returns a port below the range that the system assigns to connections, which
// could otherwise take it while the server is down.
func freePort() int {
	for {
		port := 10_000 + rand.IntN(20_000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command runs a program as the owner of the folder. PostgreSQL refuses to run as root.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = owner()
	return cmd
}

// URL returns the URL of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, s.Addr, database)
}

// run starts the server, and waits until it answers.
func (s *Server) run() error {
	_, port, _ := net.SplitHostPort(s.Addr)
	args := []string{"-D", s.data()}
	for _, setting := range append([]string{
		"port=" + port, "listen_addresses=127.0.0.1", "unix_socket_directories=",
		"max_connections=300", "shared_buffers=32MB", "log_min_messages=warning",
	}, s.settings...) {
		args = append(args, "-c", setting)
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.cmd = s.command("postgres", args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	s.guard.know(s.cmd.Process.Pid)
	s.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(s.cmd, s.ended)
	if err := s.await(); err != nil {
		s.Kill()
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("postgres: %w\n%s", err, said)
	}
	return nil
}

// await returns when the process answers. Another process may have taken its port.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		err := s.with(ctx, func(ctx context.Context, c *pgx.Conn) error {
			var dir string
			err := c.QueryRow(ctx, "SHOW data_directory").Scan(&dir)
			if err == nil && dir != s.data() {
				err = fmt.Errorf("%s is taken by the server in %s", s.Addr, dir)
			}
			return err
		})
		if err == nil {
			return nil
		}
		select {
		case end := <-s.ended:
			s.ended <- end
			return fmt.Errorf("the server ended: %v", end) //nolint:errorlint // nil if it ended by itself
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Restart starts the server again after Stop, Crash or Kill, with the same data and address.
func (s *Server) Restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		// After a kill, processes of the former server may still hold its memory.
		err := s.run()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Stop shuts the server down. It ends all sessions and saves its data (fast).
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Crash ends the server and all its processes without saving anything (immediate).
func (s *Server) Crash() { s.end(syscall.SIGQUIT) }

// Kill kills the server like kill -9. Processes that it started end soon.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(how os.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(how) // it may have ended already
	<-s.ended                     //nolint:errcheck // it was told to end
	s.cmd = nil
	s.guard.know(0)
}

// Close ends the server and removes its data.
func (s *Server) Close() {
	s.Crash()
	s.guard.done()
}

// guard is a process that outlives this one, also if this one is killed. It then ends the
// server and removes the folder.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// The guard reads the id of the server's process, or an empty line if there is none. Its
// input ends with the process that writes it.
const guarding = `trap '' INT TERM HUP
while read -r line; do server=$line; done
if [ -n "$server" ]; then
	kill -QUIT "$server" 2>/dev/null
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL "$server" 2>/dev/null
fi
rm -rf "$1"`

func watch(dir string) (*guard, error) {
	cmd := exec.Command("sh", "-c", guarding, "sh", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &guard{cmd: cmd, in: in}, cmd.Start()
}

func (g *guard) know(pid int) {
	line := "\n"
	if pid != 0 {
		line = strconv.Itoa(pid) + line
	}
	_, _ = io.WriteString(g.in, line) // it outlives this process
}

func (g *guard) done() {
	_ = g.in.Close()
	_ = g.cmd.Wait()
}
