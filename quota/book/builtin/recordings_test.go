package builtin_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/internal/recorded"
	"github.com/headroom-quota/headroom/quota"
)

var update = flag.Bool("update", false, "rewrite the golden files of the built-in price books")

// recordings has a folder for each built-in book. An archive in it is what one program
// sends, the answers as the upstream documents them, and the time between. golden.txt is
// what the ledger made of all of them.
const recordings = "testdata"

// began is when the recordings begin.
var began = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestBuiltinRecordings sends what is recorded through the real transport.
func TestBuiltinRecordings(t *testing.T) {
	for _, name := range headroom.ListBuiltin() {
		short, other := strings.CutPrefix(name, "builtin/")
		if !other || short == "youtube-2025" {
			continue // YouTube has its simulator
		}
		t.Run(short, func(t *testing.T) {
			dir := filepath.Join(recordings, short)
			paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
			if err != nil || len(paths) < 3 {
				t.Fatalf("%d recordings of %s: %v", len(paths), name, err)
			}
			var got strings.Builder
			for _, path := range paths {
				replay(t, &got, name, path)
			}
			golden := filepath.Join(dir, "golden.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s differs (-golden +now):\n%s", golden, diff)
			}
		})
	}
}

// replay makes the calls of a recording, and writes what became of them.
func replay(t *testing.T, out *strings.Builder, name, path string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "# %s\n# %s\n", strings.TrimSuffix(filepath.Base(path), ".txtar"), strings.Join(strings.Fields(string(archive.Comment)), " "))
	costs := name
	if of, is := strings.CutSuffix(strings.TrimPrefix(name, "builtin/"), "-prices"); is { // prices count with a budget
		costs = write(t, "extends: "+name+"\nbudgets: {all: {quota: 20 USD, windows: [{per: month}], of: "+of+"}}")
	}
	player, err := recorded.New(load(t, costs), began)
	if err != nil {
		t.Fatal(err)
	}
	repeat := 1
	for i := 0; i < len(archive.Files); i++ {
		switch f := archive.Files[i]; f.Name {
		case "repeat": // the next request, and tell of the last one
			if repeat, err = strconv.Atoi(strings.TrimSpace(string(f.Data))); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		case "wait":
			d, err := time.ParseDuration(strings.TrimSpace(string(f.Data)))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			player.Advance(d)
			fmt.Fprintf(out, "wait %s\n", d)
		case "request":
			request, err := recorded.ReadRequest(f.Data)
			if err != nil {
				t.Fatalf("%s: a request %v", path, err)
			}
			var answer *recorded.Message
			if i+1 < len(archive.Files) && archive.Files[i+1].Name == "answer" {
				i++
				if answer, err = recorded.ReadAnswer(archive.Files[i].Data); err != nil {
					t.Fatalf("%s: an answer %v", path, err)
				}
			}
			if repeat > 1 {
				fmt.Fprintf(out, "%d times, of which the last:\n", repeat)
			}
			for ; ; repeat-- {
				req, err := request.Request("")
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				outcome, err := player.Call(t.Context(), req, answer)
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				if answer != nil && outcome.Keyed != (outcome.Pools != nil) {
					t.Errorf("%s: %s was sent with a key: %t", path, request.First, outcome.Keyed)
				}
				if repeat <= 1 {
					tell(out, req, outcome)
					break
				}
			}
		default:
			t.Fatalf("%s: there is no section %q here", path, f.Name)
		}
	}
	out.WriteByte('\n')
}

// tell writes what became of a call.
func tell(out *strings.Builder, req *http.Request, o *recorded.Outcome) {
	fmt.Fprintf(out, "%s %s%s\n", req.Method, req.URL.Host, req.URL.Path)
	for _, n := range o.Notes {
		switch n.Kind {
		case recorded.Reserved:
			fmt.Fprintf(out, "  reserved for %s: %s\n", n.Method, charged(n.Charges))
		case recorded.Answered:
			fmt.Fprintf(out, "  answer %d\n", n.Status)
		case recorded.Settled:
			fmt.Fprintf(out, "  settled: %s\n", charged(n.Charges))
		case recorded.Ended:
			fmt.Fprintf(out, "  counted at the end: %s\n", charged(n.Charges))
		case recorded.Others:
			fmt.Fprintf(out, "  learned: %s, %d units of others since %s\n", short(n.Charges[0].Pool), n.Charges[0].Units, n.Since.UTC().Format(time.TimeOnly))
		case recorded.Limited:
			until := ""
			if !n.Until.IsZero() {
				until = " until " + n.Until.UTC().Format(time.TimeOnly+" 01-02")
			}
			fmt.Fprintf(out, "  learned: %s has a limit of %d%s\n", short(n.Charges[0].Pool), n.Charges[0].Units, until)
		case recorded.Shut:
			names := make([]string, len(n.Charges))
			for i, c := range n.Charges {
				names[i] = short(c.Pool)
			}
			until := "for " + n.For.String()
			if n.For == 0 {
				until = "until " + n.Until.UTC().Format("15:04:05.000 01-02")
			}
			fmt.Fprintf(out, "  shut: %s %s\n", strings.Join(names, ", "), until)
		}
	}
	var refused *quota.RefusedError
	if errors.As(o.Err, &refused) {
		fmt.Fprintf(out, "  not sent: %s, retry after %s\n", short(refused.Pool), refused.RetryAfter)
	} else if o.Err != nil {
		fmt.Fprintf(out, "  error: %s\n", o.Err)
	}
	for _, s := range o.Pools {
		fmt.Fprintf(out, "  now %s:", short(s.Pool))
		for _, used := range s.Windows {
			fmt.Fprintf(out, " %d of %d in %s;", used.Used, used.Limit, used.Window)
		}
		if s.Blocked.After(s.Now) {
			fmt.Fprintf(out, " shut until %s", s.Blocked.UTC().Format(time.TimeOnly+" 01-02"))
		}
		out.WriteByte('\n')
	}
}

// charged lists units of pools.
func charged(charges []recorded.Charge) string {
	all := make([]string, len(charges))
	for i, c := range charges {
		all[i] = fmt.Sprintf("%s %d", short(c.Pool), c.Units)
	}
	return strings.Join(all, ", ")
}

// short names a pool within the only upstream of a recording.
func short(p quota.Pool) string {
	name := p.Name
	if p.Account != quota.DefaultAccount {
		name += "@" + p.Account
	}
	if p.Key != "" {
		name += "[" + p.Key + "]"
	}
	return name
}
