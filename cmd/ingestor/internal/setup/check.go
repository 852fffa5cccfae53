// Package setup has the commands that write, show and check the configuration.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/window"
)

// staleAfter is the age at which what a price book says of an upstream may have changed.
const staleAfter = 180 * 24 * time.Hour

// staleUpstreams warns of upstreams that were last compared with their source long ago, and of methods that lack a bill.
func staleUpstreams(a *session.Session, f *findings, s *settings.Settings) {
	now := a.Now()
	for _, caller := range slices.Sorted(maps.Keys(s.Unbilled)) {
		f.warn("price book", "token %s: %s", caller, s.Unbilled[caller])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Book.Upstreams)) {
		u := s.Book.Upstreams[name]
		if p := u.Prices; p != nil && len(u.Budgets) > 0 && !p.Verified.IsZero() && now.Sub(p.Verified) > staleAfter {
			f.warn("price book", "the prices of %s were compared on %s, %d days ago, and may be out of date\nCompare them with %s", name, p.Verified.Format(time.DateOnly), now.Sub(p.Verified)/(24*time.Hour), p.Source)
		}
		var lack []string // methods whose calls are refused because they have no bill
		for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
			if len(u.Budgets) > 0 && u.Methods[m].Bill == nil {
				lack = append(lack, m)
			}
		}
		if len(lack) > 0 {
			f.warn("price book", "budget %s pays for %s, and these methods have no bill, so their calls are %s: %s\nIf one is free, add to it: bill: 0 USD\nElse add the most that a call of it costs, as in bill: 5 USD", u.Budgets[0].Name, u.Name, unbilled(u), strings.Join(lack, ", "))
		}
		if age := now.Sub(u.Verified); !u.Verified.IsZero() && age > staleAfter {
			remedy := ""
			if u.Source != "" {
				remedy = "\nCompare it with " + u.Source
			}
			f.warn("price book", "%s was verified on %s, %d days ago, and may be out of date%s", name, u.Verified.Format(time.DateOnly), age/(24*time.Hour), remedy)
		}
	}
}

// unbilled says what becomes of the calls of a method without a bill, whose upstream has budgets.
func unbilled(u *book.Upstream) string {
	of := map[string]bool{}
	for _, p := range u.Budgets {
		switch {
		case u.Mode == book.Observe:
			return "not counted in it"
		case !p.OnlyKeys:
			return "refused"
		}
		for key := range p.Keys {
			of[key] = true
		}
	}
	return "refused if they are of " + strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}

func CheckCommand(a *session.Session) *cobra.Command {
	var call bool
	cmd := a.Command("check", console.NoArgs, func(cmd *cobra.Command, _ []string) (err error) {
		ctx := cmd.Context()
		a.Tests = true
		f := &findings{codes: map[int]bool{console.ExitDone: true}}
		var done console.Closers
		defer func() { err = errors.Join(err, done.Close()) }()
		if s, err := a.Settings(cmd.Flags()); err != nil {
			f.fault("configuration", err)
		} else {
			checkSettings(f, s)
			checkBook(f, s)
			staleUpstreams(a, f, s)
			l, clocks := checkLedger(ctx, a, f, s, &done)
			more, err := checkCatalog(ctx, a, f, s, l, &done)
			f.fault("catalog", err)
			f.checkClocks(append(clocks, more...))
			if s.Book.Upstreams[settings.Metered] != nil {
				checkKeys(ctx, f, s)
			}
			if s.CountsUnits() && l != nil {
				checkCounts(ctx, a, f, s, l)
			}
			checkToken(f, s)
			checkProxied(ctx, f, s)
			checkPrograms(f, s)
			checkFiles(f, s)
			checkTargets(f, s)
			if call && l != nil {
				f.fault("call", f.call(ctx, a, s, l))
			}
		}
		if ctx.Err() != nil { // what was found is not true of the rest
			return ctx.Err()
		}
		if err := a.Print(f.all, func(s *console.Sheet) {
			for _, f := range f.all {
				ink := map[string]lipgloss.Style{"ok": console.Good, "warning": console.Warm, "fault": console.Bad}[f.State]
				text := f.What + ": " + f.About
				first, rest, more := strings.Cut(text, "\n")
				text = s.Wrap(first, 9)
				if more && f.State == "ok" {
					for line := range strings.SplitSeq(rest, "\n") {
						text += "\n         " + s.Wrap(line, 11)
					}
				} else if more { // a remedy, or lines of a file
					text += "\n         " + strings.ReplaceAll(rest, "\n", "\n         ")
				}
				s.Text.WriteString(s.In(ink, fmt.Sprintf("%-7s", f.State)) + "  " + text + "\n")
			}
		}); err != nil {
			return err
		}
		if code := console.Worst(f.codes); code != console.ExitDone {
			return &console.Exit{Code: code}
		}
		return nil
	})
	cmd.Flags().BoolVar(&call, "call", false, "also make one call, which costs 1 unit")
	return cmd
}

// finding is one result of ingestor check.
type finding struct {
	What  string `json:"what"`
	State string `json:"state"` // ok, warning or fault
	About string `json:"about"`
}

// findings are the results so far, with the exit codes of the faults.
type findings struct {
	all   []finding
	codes map[int]bool
}

func (f *findings) ok(what, format string, args ...any) {
	f.all = append(f.all, finding{what, "ok", fmt.Sprintf(format, args...)})
}

func (f *findings) warn(what, format string, args ...any) {
	f.all = append(f.all, finding{what, "warning", fmt.Sprintf(format, args...)})
}

// fault adds a fault. It ignores nil.
func (f *findings) fault(what string, err error) {
	if err != nil {
		f.all = append(f.all, finding{what, "fault", err.Error()})
		f.codes[console.ExitCode(err)] = true
	}
}

// checkToken checks the tokens for clients that reserve over HTTP.
func checkToken(f *findings, s *settings.Settings) {
	warned := false
	tokens, err := s.CallerTokens(func(warning string) {
		f.warn("token", "%s", warning)
		warned = true
	})
	switch {
	case err != nil:
		f.fault("token", err)
	case len(tokens) > 0 && !warned:
		f.ok("token", "clients that present it can reserve over HTTP at ingestor serve")
	}
}

// checkTargets looks whether the targets of notices have what they need. It sends nothing.
func checkTargets(f *findings, s *settings.Settings) {
	var ready []string
	for _, name := range slices.Sorted(maps.Keys(s.Notify)) {
		t := s.Notify[name]
		if err := t.Ready(); err != nil {
			f.fault("notify", console.Config(fmt.Errorf("%s: %w", name, err)))
			continue
		}
		ready = append(ready, name)
	}
	if len(ready) > 0 {
		f.ok("notify", "%s would be told\nTo send a test: ingestor notify test", strings.Join(ready, ", "))
	}
}

func checkSettings(f *findings, s *settings.Settings) {
	jobs := s.List()
	f.ok("configuration", "jobs: %d, from %s", len(jobs), cmp.Or(s.File, "the defaults\nTo write a file: ingestor init"))
	if len(jobs) > 0 {
		f.fault("jobs", s.Priced(jobs))
	}
	if days := s.KeepStatisticsDays; days > ingest.DefaultKeepStatisticsDays {
		f.warn("retention", "statistics are kept for %d days: YouTube allows more than %d only to audited developers who have accepted its amendment of 2026, and only for some statistics", days, ingest.DefaultKeepStatisticsDays)
	}
	if s.Endpoint != "" {
		f.warn("endpoint", "calls go to %s, not to the real upstream", open.Shown(s.Endpoint))
	}
}

// checkBook warns of valid entries of the price book that are likely mistakes.
func checkBook(f *findings, s *settings.Settings) {
	f.ok("price book", "%s, revision %d", cmp.Or(s.Costs, "built in"), s.Book.Revision)
	for _, name := range slices.Sorted(maps.Keys(s.Book.Upstreams)) {
		u := s.Book.Upstreams[name]
		var said []string // in words: what depends on the calls of an upstream, and what it tells
		for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
			for _, pool := range slices.Sorted(maps.Keys(u.Methods[m].Prices)) {
				said = append(said, fmt.Sprintf("%s, %s: %s", m, pool, u.Methods[m].Prices[pool]))
			}
		}
		said = append(said, session.Answers(u, nil)...)
		for i := range u.Refusals {
			if r := &u.Refusals[i]; !r.Credential {
				said = append(said, r.In(u))
			}
		}
		if len(said) > 0 {
			f.ok("price book", "%s, by what requests and answers say:\n%s", u.Name, strings.Join(said, "\n"))
		}
		for _, pool := range slices.Sorted(maps.Keys(u.Pools)) {
			exact := false
			f.drainingDay(name+"/"+pool, u.Pools[pool].Windows)
			for _, w := range u.Pools[pool].Windows {
				if w.Estimates() {
					f.warn("price book", "%s/%s is guarded by a counter (%s), an estimate that may pass the limit\nFor the ring, which never does, write {per: %s}", name, pool, w, w.Per)
				} else {
					exact = true
				}
			}
			if !exact {
				f.warn("price book", "%s/%s has no exact window", name, pool)
			}
		}
	}
	f.slowWindows(s.Book)
	f.likelyTypos(s)
	f.lostRefusals(s)
}

// drainingDay warns of a pool that has only a bucket of a day or more. A bucket lets
// through a burst and a quota in such a time, so an upstream that counts days would refuse.
func (f *findings) drainingDay(pool string, windows []book.Window) {
	const day = 24 * time.Hour
	counts := func(w book.Window) bool { return !w.Drains() }
	long := slices.IndexFunc(windows, func(w book.Window) bool { return w.Drains() && w.Length() >= day })
	if long < 0 || slices.ContainsFunc(windows, counts) {
		return
	}
	f.warn("price book", "%s is guarded by a bucket only (%s)\nIf the upstream counts by the day, add its calendar: {per: day, zone: ...}", pool, windows[long])
}

// slowWindows warns of rings whose precision is so coarse that a busy caller cannot use
// the whole quota.
func (f *findings) slowWindows(b *quota.Book) {
	warn := func(owner string, windows []book.Window) {
		for _, w := range windows {
			if w.Yield() >= window.MinYield {
				continue
			}
			remedy := "Write algorithm: log, which is exact"
			if best := w.Default(); best.Yield() >= window.MinYield {
				remedy = fmt.Sprintf("Write precision: %s, or leave it out", console.Length(best.Precision))
			}
			if prompt := w.Spec; w.Late > 0 {
				if prompt.Late = 0; prompt.Yield() >= window.MinYield {
					remedy = "Lower late if calls arrive sooner"
				}
			}
			f.warn("price book", "%s: the window of %s with precision %s sustains %d%% of its quota\n%s", owner, w, w.Precision, int(100*w.Yield()), remedy)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Upstreams)) {
		pools := b.Upstreams[name].Pools
		for _, pool := range slices.Sorted(maps.Keys(pools)) {
			warn(name+"/"+pool, pools[pool].Windows)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Families)) {
		warn("family "+name, b.Families[name].Windows)
		for _, key := range slices.Sorted(maps.Keys(b.Families[name].Overrides)) {
			if own := b.Families[name].Overrides[key]; !slices.EqualFunc(own, b.Families[name].Windows, func(a, b book.Window) bool { return a.Spec == b.Spec }) {
				warn("family "+name+", key "+key, own)
			}
		}
	}
}

// lostRefusals warns of a book whose list of refusals replaced the built-in one and lacks
// some of its rules. Without them, a used-up quota does not block its pool.
func (f *findings) lostRefusals(s *settings.Settings) {
	builtin, err := headroom.Load("")
	if err != nil {
		f.fault("price book", console.Config(err))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(builtin.Upstreams)) {
		mine := s.Book.Upstreams[name]
		if mine == nil {
			continue
		}
		rules, lost := builtin.Upstreams[name].Refusals, 0
		for _, rule := range rules {
			if !slices.ContainsFunc(mine.Refusals, func(r book.Refusal) bool { return reflect.DeepEqual(r, rule) }) {
				lost++
			}
		}
		if lost > 0 {
			f.warn("price book", "its refusals of %s lack %d of the %d built-in rules: a list replaces the list that it extends\nTo see the rules in force: ingestor costs show", name, lost, len(rules))
		}
	}
}

// checkFiles warns of files with spend or clients' keys that other users can read.
func checkFiles(f *findings, s *settings.Settings) {
	paths := []string{s.Catalog}
	if at, err := open.Parse(s.Ledger); err == nil {
		journal, _ := at.Journal(s.State) // a ledger whose folder is missing has none
		paths = append(paths, at.File, journal)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "" })
	for _, path := range paths {
		for _, file := range []string{path, path + "-wal", path + "-shm"} {
			f.private("file", file)
		}
	}
}

// checkKeys checks that every account has a key. It never shows one.
func checkKeys(ctx context.Context, f *findings, s *settings.Settings) {
	accounts := []string{quota.DefaultAccount}
	for _, j := range s.List() {
		if j.Kind.Runs() { // its calls go through a proxy
			continue
		}
		accounts = append(accounts, cmp.Or(j.Account, quota.DefaultAccount))
	}
	slices.Sort(accounts)
	for _, account := range slices.Compact(accounts) {
		name, path, from := settings.KeyOf(account), s.KeyFile, "from YOUTUBE_API_KEY"
		if account != quota.DefaultAccount {
			path = s.Accounts[account].KeyFile
		}
		if account != quota.DefaultAccount || strings.TrimSpace(os.Getenv("YOUTUBE_API_KEY")) == "" {
			from = "from " + path
		} else {
			path = ""
		}
		f.key(ctx, name, s.KeySources()[name], from, path)
	}
}

// key checks that a key can be read, which comes from somewhere: a file has a path.
func (f *findings) key(ctx context.Context, name string, read meter.KeySource, from, path string) {
	if _, err := read(ctx); err != nil {
		f.fault("key", &console.Exit{Code: console.ExitCredential, Err: fmt.Errorf("%s: %w", name, err)})
		return
	}
	f.ok("key", "%s has one, %s", name, from)
	f.private("key", path)
}

// private warns of a file that other users can read.
func (f *findings) private(what, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		f.warn(what, "other users can read %s\nTo prevent that: chmod 600 %s", path, shell.Quote(path))
	}
}

// someVideo is a video that has existed since 2005.
const someVideo = "jNQXAC9IVRw"

func (f *findings) call(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger) error {
	if s.Book.Upstreams[settings.Metered] == nil {
		return console.Config(fmt.Errorf("--call asks %s for a video, and the price book %s does not have that upstream", settings.Metered, s.Costs))
	}
	transport, err := a.Transport(s, l)
	if err != nil {
		return err
	}
	client, err := youtube.New(&http.Client{Transport: transport, Timeout: s.CallTimeout}, &youtube.Options{UserAgent: "headroom-ingestor"})
	if err != nil {
		return console.Config(err)
	}
	began := a.Now()
	switch _, err := client.Videos(meter.WithJob(ctx, "check"), []string{someVideo}); {
	case err != nil && console.ExitCode(err) == console.ExitFailed:
		return &console.Exit{Code: console.ExitDown, Err: err}
	case err != nil:
		return err
	}
	f.ok("call", "videos.list answered in %s, for 1 unit", a.Now().Sub(began).Round(time.Millisecond))
	return nil
}

// checkProxied checks the keys of other upstreams, and the tokens of programs that may call
// through the proxy.
func checkProxied(ctx context.Context, f *findings, s *settings.Settings) {
	keys, err := s.AllKeys()
	f.fault("key", err)
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		if keys == nil {
			break
		}
		f.key(ctx, name, keys[name], "from "+s.Keys[name].File, s.Keys[name].File)
	}
	for _, name := range s.Book.Metered() {
		for _, to := range s.Book.Upstreams[name].Spill {
			if _, has := keys[to.String()]; !has && keys[to.Upstream.Name+"@*"] == nil && to.Upstream.Key.Header != "" && (to.Account != quota.DefaultAccount || keys[to.Upstream.Name] == nil) {
				f.warn("key", "calls of %s that lack units should go to %s, which has no key, so they do not\nSave the key in a file that only you can read, and name it: keys: {%[2]q: {file: FILE}}", name, to.String())
			}
		}
	}
	if s.ProxyListen == "" && len(s.Grants()) == 0 {
		return
	}
	tokens, err := s.ProxyTokens(func(warning string) { f.warn("proxy", "%s", warning) })
	if err == nil {
		err = console.Config(proxy.Check(tokens, s.Book))
	}
	if err == nil && keys != nil {
		err = s.NeedKeys(tokens, keys)
	}
	if err != nil {
		f.fault("proxy", err)
		return
	}
	for _, t := range tokens {
		text := ""
		for _, name := range t.Grant().Upstreams {
			for _, to := range s.Book.Upstreams[name].Spill {
				if !slices.Contains(t.Grant().Upstreams, to.Upstream.Name) {
					text += fmt.Sprintf("\nIts calls of %s do not spill to %s, which it may not call", name, to.String())
				}
			}
		}
		f.ok("proxy", "the token %s may call %s%s", t.Name(), t.Grant(), text)
	}
}

// checkPrograms checks that the programs of jobs can be started, and their files be written.
func checkPrograms(f *findings, s *settings.Settings) {
	for _, j := range s.List() {
		if !j.Kind.Runs() {
			continue
		}
		if _, err := lookPath(j); err != nil {
			f.fault("job "+j.Name, console.Config(fmt.Errorf("its program cannot be started: %w", err)))
			continue
		}
		bad := false
		for _, path := range []string{j.State, j.Output} {
			if path == "" {
				continue
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
				f.fault("job "+j.Name, console.Config(fmt.Errorf("the folder of %s does not exist\nTo make it: mkdir -p %s", path, shell.Quote(filepath.Dir(path)))))
				bad = true
			}
		}
		if !bad {
			f.ok("job "+j.Name, "runs %s behind a proxy, for %s", shell.Quote(j.Program.Command[0]), strings.Join(s.UpstreamsOf(j), ", "))
		}
	}
}

// lookPath finds the program of a job, as its folder has it.
func lookPath(j *ingest.Job) (string, error) {
	name := j.Program.Command[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(j.Dir, name)
	}
	return exec.LookPath(name)
}

// likelyTypos warns of hosts that are nearly those of a built-in price book: calls to the
// real host would not be metered.
func (f *findings) likelyTypos(s *settings.Settings) {
	var known []*book.Book
	for _, name := range headroom.ListBuiltin() {
		b, err := headroom.Load(name)
		if err != nil {
			f.fault("price book", console.Config(err))
			return
		}
		known = append(known, b)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Book.Upstreams)) {
		for _, entry := range s.Book.Upstreams[name].Hosts {
			host, _, _ := strings.Cut(entry, "/")
			if like := nearlyListed(known, host); like != "" {
				f.warn("price book", "%s lists the host %s, which is nearly %s\nCalls to a host that is not listed are not metered. If it is a typo, correct hosts of %[1]s", name, host, like)
			}
		}
	}
}

// nearlyListed returns the host of a price book that a host is probably meant to be, or "". A
// host that one of them lists is right.
func nearlyListed(known []*book.Book, host string) (like string) {
	for _, b := range known {
		for _, u := range b.Upstreams {
			if slices.ContainsFunc(u.Hosts, func(entry string) bool { return entry == host || strings.HasPrefix(entry, host+"/") }) {
				return ""
			}
		}
		if like == "" {
			like = b.SuggestHost(strings.TrimPrefix(host, "*."))
		}
	}
	return like
}

// checkCounts reads Google's own count of each account, and compares it. It records nothing.
func checkCounts(ctx context.Context, a *session.Session, f *findings, s *settings.Settings, l *quota.Ledger) {
	const what = "google's count"
	c, err := counting.NewCounts(ctx, a, s, l)
	if err != nil {
		f.fault(what, err)
		return
	}
	for _, account := range slices.Sorted(maps.Keys(c.Readers)) {
		all, strange, err := c.Read(ctx, account, a.Now())
		project := c.Readers[account].Project()
		if err != nil {
			f.fault(what, fmt.Errorf("project %s: %w", project, err))
		}
		for _, one := range strange {
			f.warn(what, "project %s: Google counts %s, which no pool of the price book counts\nTo count it, give the pool its metric: %[2]s", project, console.Plain(one.Metric))
		}
		if err == nil {
			f.ok(what, "project %s: it can be read, for %s", project, countedNames(all))
		}
	}
}

// countedNames lists the pools that Google counts.
func countedNames(all []*counting.Counted) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Pool.String()
	}
	return cmp.Or(strings.Join(names, ", "), "no pool")
}
