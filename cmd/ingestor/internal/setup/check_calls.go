package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// checkProxied checks the keys of other upstreams, and the tokens of programs that may call
// through the proxy.
func checkProxied(ctx context.Context, f *findings, s *settings.Settings) {
	keys, err := s.AllKeys()
	f.fault("key", err)
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		if keys == nil {
			break
		}
		if _, err := keys[name](ctx); err != nil {
			f.fault("key", &console.Exit{Code: console.ExitCredential, Err: fmt.Errorf("%s: %w", name, err)})
			continue
		}
		f.ok("key", "%s has one, from %s", name, s.Keys[name].File)
		f.private("key", s.Keys[name].File)
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
