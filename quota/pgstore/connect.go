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

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "headroom ledger"
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = transactionDeadline
	}
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
