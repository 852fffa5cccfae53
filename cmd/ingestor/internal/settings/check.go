package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

var errTargetName = errors.New("the name of a target has up to 40 lower-case letters, digits, - and _")

// checkNotify checks the targets of notices, and the dead man's switch.
func (s *Settings) checkNotify() (faults faults) {
	for _, name := range slices.Sorted(maps.Keys(s.Notify)) {
		path := "notify." + name
		if !CallerName().MatchString(name) {
			faults.add(path, "%w", errTargetName)
		}
		t := s.Notify[name]
		found := t.Check()
		for _, field := range slices.Sorted(maps.Keys(found)) {
			faults.add(strings.TrimSuffix(path+"."+field, "."), "%w", found[field])
		}
	}
	if err := notify.CheckPing(s.Ping); err != nil {
		faults.add("ping", "%w", err)
	}
	return faults
}

// UpstreamsOf returns the upstreams that the program of a job may call.
func (s *Settings) UpstreamsOf(j *ingest.Job) []string {
	return s.known(j.Upstreams, "", "", func(string, string, ...any) {})
}

// known returns the named upstreams, or all of the price book. It reports what the price book
// does not have.
func (s *Settings) known(upstreams []string, account, class string, fault func(what, format string, args ...any)) []string {
	all := s.Book.Metered()
	if len(upstreams) == 0 {
		upstreams = all
	}
	account = cmp.Or(account, quota.DefaultAccount)
	hasAccount, hasClass := account == quota.DefaultAccount, class == ""
	for _, name := range upstreams {
		u := s.Book.Upstreams[name]
		if u == nil {
			fault("upstreams", "the price book has no upstream %q; it has %s", name, strings.Join(all, ", "))
			return upstreams
		}
		_, has := u.Classes[class]
		hasClass = hasClass || has
		hasAccount = hasAccount || u.AnyAccount || slices.Contains(u.Accounts, account)
	}
	if !hasAccount {
		fault("account", "none of %s has the account %q", strings.Join(upstreams, ", "), account)
	}
	if !hasClass {
		fault("class", "none of %s has the class %q", strings.Join(upstreams, ", "), class)
	}
	return upstreams
}

// KnownFlags is known for the flags of a command, which it completes.
func (s *Settings) KnownFlags(upstreams *[]string, account, class string) (err error) {
	*upstreams = s.known(*upstreams, account, class, func(what, format string, args ...any) {
		if what == "upstreams" {
			what = "upstream"
		}
		err = errors.Join(err, console.Usage("--%s: %w", what, fmt.Errorf(format, args...)))
	})
	return err
}
