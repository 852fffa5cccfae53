package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/setup"
	"github.com/headroom-quota/headroom/ingest"
)

// callsOf are the calls for one page of a job of a kind.
var callsOf = map[ingest.Kind][]string{
	ingest.Trending:  {"videos.list"},
	ingest.Search:    {"search.list"},
	ingest.Uploads:   {"playlistItems.list", "channels.list"},
	ingest.Stats:     {"videos.batchGetStats"},
	ingest.Retention: {"videos.list", "channels.list"},
}

// TestTheFirstScheduleFitsTheQuota prices what init writes, and also with all that is
// commented out in it.
func TestTheFirstScheduleFitsTheQuota(t *testing.T) {
	everything := string(setup.Initial)
	head, jobs, _ := strings.Cut(everything, "\njobs:\n")
	for _, line := range []string{"search:", "  kind: search", "uploads:", "  kind: uploads"} {
		if !strings.Contains(jobs, "  #"+line) {
			t.Fatalf("the file has no line %q", line)
		}
	}
	everything = head + "\njobs:\n" + regexp.MustCompile(`(?m)^  #(\S|  )`).ReplaceAllString(jobs, "  $1")
	for name, yaml := range map[string]string{"as it is": string(setup.Initial), "with all its jobs": everything} {
		t.Run(name, func(t *testing.T) {
			home(t, yaml)
			s, err := settings.Load("", flagsOf(t))
			if err != nil {
				t.Fatal(err)
			}
			u := s.Book.Upstreams[settings.Metered]
			units := map[string]int64{}
			for _, j := range s.List() {
				works := int64(1)
				if j.Regional() {
					works = int64(len(j.Regions) * max(len(j.Categories), len(j.Queries), 1))
				}
				works *= int64(max(len(j.Channels), 1))
				day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
				for at := j.Schedule().Next(day.Add(-time.Second)); at.Before(day.Add(24 * time.Hour)); at = j.Schedule().Next(at) {
					for _, call := range callsOf[j.Kind] {
						for pool, cost := range u.Methods[call].Charges {
							units[pool] += works * int64(j.Pages) * cost
						}
					}
				}
			}
			if units["units"] == 0 || units["batch_stats"] == 0 {
				t.Fatalf("it spends %v: nothing was priced", units)
			}
			for pool, spent := range units {
				for _, w := range u.Pools[pool].Windows {
					if limit := w.Quota - w.Headroom; w.Per != 10*time.Minute && spent > limit {
						t.Errorf("%s: %d units a day of %d", pool, spent, limit)
					}
				}
			}
			t.Log(units)
		})
	}
}

func TestInitLeavesNothingHalfWritten(t *testing.T) {
	home(t, "")
	if err := os.WriteFile("ingestor.yaml", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := setup.WriteWhole("ingestor.yaml", setup.Initial, false); err == nil || !strings.Contains(err.Error(), "To overwrite it: ingestor init --force") {
		t.Errorf("it says %v", err)
	}
	kept, err := os.ReadFile("ingestor.yaml")
	if err != nil || string(kept) != "mine" {
		t.Errorf("it holds %q, %v", kept, err)
	}
	if all, err := os.ReadDir("."); err != nil || len(all) != 1 {
		t.Errorf("beside it there are %v, %v", all, err)
	}
}

// strange is a folder whose name means something to a shell, to cron and to systemd.
const strange = "it's 100% $HOME"

// fromInit is what init says, for a folder of a strange name, with a configuration
// that works.
func fromInit(t *testing.T) (f *folder, said string) {
	t.Helper()
	f = newFolder(t, 1000, "")
	cmd := f.program(t.Context())
	cmd.Dir, cmd.Args = f.dir, []string{"ingestor", "init", "--dir", strange}
	r := finish(t, cmd)
	if r.code != console.ExitDone {
		t.Fatal(r)
	}
	written, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.write(filepath.Join(strange, "ingestor.yaml"), string(written))
	return f, r.stdout
}

// TestTheLineForCronWorks runs it as cron does: with next to no environment.
func TestTheLineForCronWorks(t *testing.T) {
	f, said := fromInit(t)
	_, line, there := strings.Cut(said, "\n  */15 * * * * ")
	line, _, _ = strings.Cut(line, "\n")
	if !there || regexp.MustCompile(`(^|[^\\])%`).MatchString(line) {
		t.Fatalf("there is no line for cron, or one that it would cut at a %%:\n%s", said)
	}
	for range 2 { // for the second there is nothing to do
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(line, `\%`, "%"))
		cmd.Dir, cmd.Env = f.dir, []string{"HOME=" + f.dir, "LOGNAME=x", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}
		if r := finish(t, cmd); r.code != console.ExitDone || r.stdout+r.stderr != "" {
			t.Errorf("%s\nleft with %d\n%s%s", line, r.code, r.stdout, r.stderr)
		}
	}
	if units := f.sim.Counts().Total().Units; units != 40 {
		t.Errorf("%d units were spent, want 40", units)
	}
}

// TestTheUnitsForSystemdAreRight, by the word of systemd where there is one.
func TestTheUnitsForSystemdAreRight(t *testing.T) {
	_, said := fromInit(t)
	blocks := regexp.MustCompile(`(?m)^  # ~/.config/systemd/user/(\S+)\n((?:(?:  [^#\n].*|  # it .*)?\n)+)`).FindAllStringSubmatch(said, -1)
	if len(blocks) != 3 {
		t.Fatalf("there are %d units\n%s", len(blocks), said)
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd to ask")
	}
	for _, units := range [][][]string{blocks[:1], blocks[1:]} {
		dir := t.TempDir()
		args := []string{"--user", "verify"}
		for _, u := range units {
			path := filepath.Join(dir, u[1])
			if err := os.WriteFile(path, []byte(u[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, path)
			if strings.Contains(u[2], "%!") || strings.Contains(u[1], "service") && !strings.Contains(u[2], `it's 100%% $$HOME/ingestor.yaml"`) {
				t.Errorf("%s is\n%s", u[1], u[2])
			}
		}
		if verify == "" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), verify, args...)
		cmd.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd says %v\n%s", err, out)
		}
	}
}
