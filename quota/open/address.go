package open

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
)

// Address says where a ledger is. [Parse] makes it.
type Address struct {
	Scheme string // memory, sqlite, redis, rediss, unix or postgres
	File   string // the path of the ledger in SQLite; empty for the others
	Fresh  bool   // the address has the option fresh; see [Options].Fresh
	rest   string // what stands behind the scheme, except for the option
}

// String returns the address without the option fresh. It may hold a password.
func (a *Address) String() string {
	switch {
	case a == nil:
		return ""
	case a.Scheme == "sqlite":
		return "sqlite:" + a.File
	}
	return a.Scheme + ":" + a.rest
}

// Flag returns the address as commands in hints name it, such as " --ledger sqlite:ledger.db".
// Passwords are hidden. It is empty for a ledger in memory, which no other program can reach.
func (a *Address) Flag() string {
	if a == nil || a.Scheme == "" || a.Scheme == "memory" {
		return ""
	}
	address := a.String()
	if a.Scheme == "sqlite" {
		if path, err := filepath.Abs(a.File); err == nil {
			address = "sqlite:" + path
		}
	}
	return " --ledger " + shell.Quote(Shown(address))
}

// Shown returns an address, of a ledger or another server, without its passwords.
func Shown(address string) string {
	scheme, rest, _ := strings.Cut(address, ":")
	if !strings.HasPrefix(rest, "//") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return scheme + ":(no URL)" // it may hold one
	}
	q := u.Query()
	for key := range q {
		if strings.Contains(key, "password") {
			q.Set(key, "xxxxx")
		}
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}

// Parse reads the address of a ledger and looks at nothing else:
//
//	memory:                      in this process, and gone with it
//	sqlite:PATH                  in a file, for the processes of one machine
//	redis://HOST:PORT/DB         on a server, for many machines; also rediss:// and unix://
//	postgres://HOST:PORT/DB      on a server, for many machines; also postgresql://
//
// Packages redisstore and pgstore list the addresses of their servers. Behind an address, ?fresh sets
// [Address].Fresh.
func Parse(address string) (*Address, error) {
	address, fresh := cutFresh(address)
	scheme, rest, colon := strings.Cut(address, ":")
	switch {
	case scheme == "memory" && colon && rest != "":
		return nil, fmt.Errorf("nothing may stand behind memory: as in %q", address)
	case scheme == "sqlite" && rest == "":
		return nil, errors.New("name a file, as sqlite:/var/lib/ingestor/ledger.db")
	case scheme == "sqlite" && strings.Contains(rest, "?fresh"): // a file of that name would be an empty ledger
		return nil, fmt.Errorf("%q: write ?fresh without a value, or leave it out", address)
	case colon && scheme == "sqlite":
		return &Address{Scheme: scheme, File: rest, Fresh: fresh}, nil
	case colon && (scheme == "memory" || scheme == "redis" || scheme == "rediss" || scheme == "unix"):
		return &Address{Scheme: scheme, Fresh: fresh, rest: rest}, nil
	case colon && (scheme == "postgres" || scheme == "postgresql"):
		return &Address{Scheme: "postgres", Fresh: fresh, rest: rest}, nil
	case !colon:
		return nil, fmt.Errorf("%q is not one of memory:, postgres://HOST:PORT/DB, redis://HOST:PORT/DB and sqlite:PATH; is it a file? then write sqlite:%[1]s", address)
	}
	return nil, fmt.Errorf("%q is not one of memory:, postgres://HOST:PORT/DB, redis://HOST:PORT/DB and sqlite:PATH", scheme+":") // what follows may be a secret
}

// Journal returns the path of the ledger's journal; empty for a ledger in memory, which
// has none. The journal of a ledger in SQLite is beside its file, because everybody who
// uses the ledger needs the same one. Its name does not begin like the ledger's: it must
// outlive an rm ledger.db*. If the ledger is named by a link, the journal is beside the
// file itself. The journal of a ledger on a server is in the folder state, which
// is [Options].State.
func (a *Address) Journal(state string) (string, error) {
	switch {
	case a == nil || a.Scheme == "":
		return "", quota.BadInput("this address was not made by open.Parse")
	case a.Scheme == "memory":
		return "", nil
	case a.Scheme == "sqlite":
		ledger, err := a.canonical()
		dir, name := filepath.Split(strings.TrimPrefix(ledger, "sqlite:"))
		return filepath.Join(dir, "journal-"+name), err
	}
	return filepath.Join(state, "journal.db"), nil
}

// Beside reports whether the ledger is on the server of a PostgreSQL database. Then
// an outage of the server is one of both.
func (a *Address) Beside(database string) bool {
	if a == nil || a.Scheme != "postgres" {
		return false
	}
	ledger, other := serverOf(a.String()), serverOf(database)
	return ledger != "" && ledger == other
}

// serverOf returns the one way to write where a PostgreSQL server is, or "".
func serverOf(address string) string {
	at, err := pgstore.Canonical(address)
	if err != nil {
		return ""
	}
	where, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return where.Host + where.RawQuery
}

// cutFresh takes the option fresh out of an address: the stores do not know it.
func cutFresh(address string) (rest string, fresh bool) {
	before, query, has := strings.Cut(address, "?")
	if !has {
		return address, false
	}
	var others []string
	for option := range strings.SplitSeq(query, "&") {
		if option == "fresh" || option == "fresh=1" {
			fresh = true
		} else {
			others = append(others, option)
		}
	}
	if !fresh {
		return address, false
	}
	if len(others) > 0 {
		before += "?" + strings.Join(others, "&")
	}
	return before, true
}

// StateDir returns the folder where a program keeps what must survive it, such as a
// ledger: $XDG_STATE_HOME/program, or .local/state/program in the user's home. It does
// not make the folder.
func StateDir(program string) (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, program), nil
	}
	home, err := os.UserHomeDir()
	if err != nil { // cron may start us with nothing
		me, failed := user.Current()
		if failed != nil || me.HomeDir == "" {
			return "", errors.New("nobody says where your home is; set HOME")
		}
		home = me.HomeDir
	}
	return filepath.Join(home, ".local", "state", program), nil
}
