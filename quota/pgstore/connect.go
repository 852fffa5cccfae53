package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/quota/pgstore/pgschema"
)

// connect makes a pool of connections to the server of a URL. It does not connect yet. No
// error has the URL: it may hold a password.
func connect(address string) (*pgxpool.Pool, string, error) {
	where, err := Canonical(address)
	if err != nil {
		return nil, "", err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %s", where, reason(address, err))
	}
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "headroom ledger")
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, transactionDeadline)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %s", where, reason(address, err))
	}
	return pool, where, nil
}

// errNoURL does not repeat the address, which may hold a password.
var errNoURL = errors.New("the address of PostgreSQL is no URL; write postgres://user@host:5432/database")

// reason returns what is wrong with an address, without the address.
func reason(address string, err error) string {
	why := errors.Unwrap(err)
	if parse, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		if why = parse.Unwrap(); why == nil {
			whole := parse.Error()
			why = errors.New(whole[strings.LastIndex(whole, "`")+1:])
		}
	}
	if why == nil {
		return "this address cannot be used"
	}
	text := strings.TrimPrefix(why.Error(), ": ")
	for _, secret := range secrets(address) {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// secrets returns the passwords of an address as they may be repeated.
func secrets(address string) (all []string) {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	found := slices.Concat(u.Query()["password"], u.Query()["sslpassword"])
	if password, ok := u.User.Password(); ok {
		found = append(found, password)
	}
	for _, s := range found {
		if s != "" {
			all = append(all, s, url.QueryEscape(s), url.PathEscape(s))
		}
	}
	return all
}

// Canonical returns the one way to write where a ledger is: the hosts in lower case with
// their ports, and the database. Two addresses that are equal then are one ledger. Users,
// passwords and options are left out, so the result may be shown.
func Canonical(address string) (string, error) {
	scheme, _, ok := strings.Cut(address, "://")
	if !ok || scheme != "postgres" && scheme != "postgresql" {
		return "", errNoURL
	}
	// Several hosts are no valid URL, if they have ports.
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return "", unparsed(address, err)
	}
	hosts := []string{hostPort(config.Host, config.Port)}
	for _, f := range config.Fallbacks {
		hosts = append(hosts, hostPort(f.Host, f.Port))
	}
	slices.Sort(hosts)
	where := url.URL{Scheme: "postgres", Path: "/" + cmp.Or(config.Database, config.User)}
	if hosts = slices.Compact(hosts); strings.HasPrefix(hosts[0], "/") {
		where.RawQuery = url.Values{"host": hosts}.Encode()
	} else {
		where.Host = strings.Join(hosts, ",")
	}
	return where.String(), nil
}

func hostPort(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host + "/.s.PGSQL." + strconv.Itoa(int(port))
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.Itoa(int(port)))
}

// unparsed says what is wrong with an address that cannot be parsed.
func unparsed(address string, err error) error {
	if _, bad := url.Parse(address); bad != nil {
		return errNoURL
	}
	return fmt.Errorf("the address of PostgreSQL: %s", reason(address, err))
}

// bound returns a context that ends within the store's timeout.
func (b *server) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.timeout)
}

const behindPgBouncer = "behind PgBouncer in transaction mode, set poll_only: true in ingestor.yaml; other programs add default_query_exec_mode=exec to the address"

// remedies say what to do about the server's errors, by their code. A code may be cut to
// its class.
var remedies = [...]struct{ code, do string }{
	{"42501", "this user lacks a right; ingestor check prints the GRANT to type"},
	{"28", "give the user and password of one who may do this"},
	{"3D000", "create the database, or name another one in the address"},
	{"25006", "the server is a standby: connect to its primary, or name all hosts and add target_session_attrs=read-write"},
	{"53300", "the server has no connection left: raise its max_connections, or lower pool_max_conns in the address"},
	{"53100", "the server's disk is full: make room; nothing that was granted is lost"},
	{"55P03", "another process holds the lock of this account"},
	{"57P", "the server is starting or going down"},
	{"42P05", behindPgBouncer},
	{"26000", behindPgBouncer},
}

// fault says which ledger an error is about, and what to do. It has no password.
func (b *server) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch class := refused.Code[:min(2, len(refused.Code))]; class {
		case "42", "3F", "26": // a table is missing: a later program may have made another schema
			b.opened.Store(false)
		}
		for _, r := range remedies {
			if strings.HasPrefix(refused.Code, r.code) {
				return fmt.Errorf("%s %s: %s: %w", op, b.where, r.do, refused)
			}
		}
		return fmt.Errorf("%s %s: %w", op, b.where, refused)
	}
	err = pgschema.Unreached(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s %s: it did not answer in time, %s at most: %w", op, b.where, b.timeout.Round(time.Millisecond), context.DeadlineExceeded)
	}
	return fmt.Errorf("%s %s: %w", op, b.where, err)
}
