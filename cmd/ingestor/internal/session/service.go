package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota/open"
)

// The socket of the service of the system's package, and its ledger.
const (
	serviceSocket = "/run/ingestor/quota.sock"
	serviceLedger = "/var/lib/ingestor/ledger.db"
	serviceConfig = "/etc/ingestor/ingestor.yaml" // found by who edits it there, and names no ledger of theirs
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// named reports whether a user has named a ledger or a catalog, or has a configuration.
func named(s *settings.Settings) bool {
	given := func(key string) bool {
		return !slices.Contains([]string{settings.FromDefault, settings.FromFile}, s.Source(key))
	}
	return s.File != "" && s.File != serviceConfig || s.Source("ledger") != settings.FromDefault || given("catalog") || given("database")
}

// Service says how to use the files of the service on this machine, if it answers, to a user who has named none. Otherwise
// it is empty. A service makes its files before it answers, so a file that is missing after this call is not one of them.
func Service(s *settings.Settings) string {
	at := cmp.Or(s.Socket, serviceSocket)
	if named(s) || s.State == filepath.Dir(serviceLedger) {
		return ""
	}
	c, err := net.DialTimeout("unix", at, time.Second)
	if err != nil {
		return ""
	}
	_ = c.Close() // nothing was asked
	if at != serviceSocket {
		return "A service answers at " + at + ". To use its files, name them: --ledger, --catalog or --config"
	}
	words := []string{"runuser", "-u", "ingestor", "--", "env", "XDG_STATE_HOME=" + filepath.Dir(filepath.Dir(serviceLedger)), "INGESTOR_CONFIG=" + serviceConfig, "ingestor"}
	if os.Geteuid() != 0 {
		words = append([]string{"sudo"}, words...)
	}
	for _, arg := range os.Args[1:] {
		words = append(words, shell.Quote(arg))
	}
	return "A service answers at " + at + ". To use its files: " + strings.Join(words, " ")
}

// Beside refuses to make a ledger for a user who has none and has named none, where the service answers: from then on it
// would be shown instead of the service's.
func Beside(s *settings.Settings, at *open.Address) error {
	if service := Service(s); service != "" && !exists(at.File) && !lost(at) {
		return console.Usage("there is no ledger at %s\n%s\nTo make your own, add:%s", at.File, service, s.LedgerFlag())
	}
	return nil
}

// AskService asks the service on this machine for its pools and its verdict, for a user who has no ledger and has
// named none. If there is nobody to ask, the error is fs.ErrNotExist.
func (a *Session) AskService(ctx context.Context, s *settings.Settings) (is *verdict.Standing, at string, err error) {
	at = cmp.Or(s.Socket, serviceSocket)
	if named(s) {
		return nil, at, fs.ErrNotExist
	}
	if _, err := os.Stat(s.LedgerFile()); !errors.Is(err, fs.ErrNotExist) {
		return nil, at, fs.ErrNotExist
	}
	switch _, err := os.Lstat(at); {
	case !errors.Is(err, fs.ErrNotExist):
	case s.Socket == "" && exists(serviceLedger):
		return nil, at, &console.Exit{Code: console.ExitDown, Err: errors.New("you have no ledger, and the service does not run\nTo start it: systemctl start ingestor-serve")}
	default:
		return nil, at, fs.ErrNotExist
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", at)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/quota", nil)
	if err != nil {
		return nil, at, err
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, at, &console.Exit{Code: console.ExitConfig, Err: fmt.Errorf("you have no ledger, and the service's is for root and its group: %s\nTo read it: sudo ingestor quota\nOr, once: sudo usermod -aG ingestor $USER, and log in again", at)}
	case err != nil:
		return nil, at, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("the service does not answer: %w\nTo start it: systemctl start ingestor-serve", err)}
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	is = &verdict.Standing{}
	if err = json.NewDecoder(resp.Body).Decode(is); err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err != nil {
		return nil, at, &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("the service at %s cannot say what is left: %w\nTo see why: journalctl -u ingestor-serve", at, err)}
	}
	return is, at, nil
}
