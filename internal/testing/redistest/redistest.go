// Package redistest starts real redis-server processes for tests, on loopback,
// and ends them by their process id.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server.
type Server struct {
	Addr string
	Dir  string // its files
	args []string
	cmd  *exec.Cmd
	log  bytes.Buffer
}

// Start starts a server on a free port. Without args it keeps nothing on disk.
func Start(dir string, args ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = []string{"--save", "", "--appendonly", "no"}
	}
	s := &Server{Addr: addr(port), Dir: dir}
	s.args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--dbfilename", "dump.rdb", "--daemonize", "no", "--loglevel", "warning",
		"--repl-diskless-sync-delay", "0",
	}, args...)
	return s, s.Run()
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Run starts the process of a server that has ended.
func (s *Server) Run() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("redis-server is not installed: make test installs it, or apt-get install redis-server: %w", err)
	}
	s.log.Reset()
	s.cmd = exec.Command(path, s.args...)
	s.cmd.Dir = s.Dir
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	if err := s.await(); err != nil {
		s.Kill()
		return fmt.Errorf("redis-server %s: %w\n%s", filepath.Base(path), err, s.log.String())
	}
	return nil
}

// await returns when the process answers. Another process may have taken its port.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	return Await(ctx, func() error {
		if err := c.Ping(ctx).Err(); err != nil { // it may be loading
			return err
		}
		is, err := fields(c.Info(ctx, "server"))
		if pid := strconv.Itoa(s.cmd.Process.Pid); err == nil && is["process_id"] != pid {
			err = fmt.Errorf("%s is taken by process %s", s.Addr, is["process_id"])
		}
		return err
	})
}

// Signal sends the process a signal: SIGSTOP, SIGCONT.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// Kill kills the process, as a crash would.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill() // it may have ended already
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Stop shuts the process down. It saves its data as configured.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended already
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
