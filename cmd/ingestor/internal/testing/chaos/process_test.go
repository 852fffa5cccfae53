//go:build linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a daemon, which is started again when it ends.
type process struct {
	r        *rig
	n        int
	settings string // its file
	state    string // its folder
	program  string
	sql      *link // to PostgreSQL
	ledger   *link // to the server of the ledger
	disk     *disk // where its state is, or nil

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended
	wanted  bool          // it has to run
	surplus []string      // how it ended by itself
	starts  int
}

// starter starts processes on one thread, so that they end with this process.
var starter = func() func(*exec.Cmd) error {
	type job struct {
		cmd  *exec.Cmd
		done chan error
	}
	jobs := make(chan job)
	var once sync.Once
	return func(cmd *exec.Cmd) error {
		once.Do(func() {
			go func() {
				runtime.LockOSThread()
				for j := range jobs {
					j.done <- j.cmd.Start()
				}
			}()
		})
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		j := job{cmd, make(chan error, 1)}
		jobs <- j
		return <-j.done
	}
}()

// start starts the process, and again whenever it ends by itself.
func (d *process) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = true
	d.run()
}

// command returns a command of the program on the daemon's machine.
func (d *process) command(args ...string) *exec.Cmd {
	args = append(args, "--config", d.settings)
	cmd := exec.Command(d.program, args...)
	if d.disk != nil {
		cmd = d.disk.command(d.program, args...)
	}
	cmd.Env = []string{"XDG_STATE_HOME=" + d.state, "YOUTUBE_API_KEY=a-key-of-the-tests"}
	return cmd
}

// operate runs a command as a person does.
func (d *process) operate(args ...string) error {
	cmd := d.command(args...)
	b, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("ingestor %s: %w: %s", strings.Join(args, " "), err, b)
	}
	return nil
}

// run starts the process. The caller holds mu.
func (d *process) run() {
	cmd := d.command("run")
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintf(log, "--- start %d\n", d.starts)
		cmd.Stderr, cmd.Stdout = log, log
		err = starter(cmd)
		_ = log.Close()
	}
	if err != nil {
		d.r.t.Error(err)
		return
	}
	d.starts++
	ended := make(chan struct{})
	d.cmd, d.ended = cmd, ended
	go func() {
		err := cmd.Wait()
		close(ended)
		d.mu.Lock()
		again := d.wanted && d.cmd == cmd
		if again {
			d.surplus = append(d.surplus, fmt.Sprintf("daemon %d ended by itself at %s: %v", d.n, d.r.at(time.Now()), err))
		}
		d.mu.Unlock()
		if !again {
			return
		}
		time.Sleep(500 * time.Millisecond) // as systemd would
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.wanted && d.cmd == cmd {
			d.run()
		}
	}()
}

// log is the file of the daemon's log, which stays with -artifacts.
func (d *process) log() string {
	return filepath.Join(d.r.t.ArtifactDir(), fmt.Sprintf("daemon%d.log", d.n))
}

// said returns the lines of the log that contain a text.
func (d *process) said(text string) (lines []string) {
	b, _ := os.ReadFile(d.log())
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, text) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// signal sends a signal.
func (d *process) signal(sig syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd != nil {
		_ = d.cmd.Process.Signal(sig) // it may have ended
	}
}

// end ends the process with a signal, waits for it, and returns how long that took.
func (d *process) end(sig syscall.Signal) time.Duration {
	d.mu.Lock()
	d.wanted = false
	ended := d.ended
	d.mu.Unlock()
	if ended == nil {
		return 0
	}
	begin := time.Now()
	d.signal(sig)
	<-ended
	return time.Since(begin)
}

func (d *process) kill() { d.end(syscall.SIGKILL) }

// pid is the process's id in the name that its fleet has for it.
func (d *process) pid() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return 0
	}
	return d.cmd.Process.Pid
}
