package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
)

func ProxyCommand(a *session.Session) *cobra.Command {
	var keep recording
	cmd := console.Command("proxy", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		hangups := session.ListenForHangups()
		defer hangups.Stop()
		var measured *metrics.Metrics
		ready := func(*settings.Settings) error {
			measured = metrics.New(&metrics.Options{Log: a.Log})
			a.Observer = measured
			return nil
		}
		return a.WithMeter(cmd, console.ExitDone, ready, func(ctx context.Context, s *settings.Settings, l *quota.Ledger, done *console.Closers) (err error) {
			kept, err := keep.open(a, s)
			if err != nil {
				return err
			}
			if kept != nil {
				done.Add(kept.Close)
			}
			refused := keepRefusals(ctx, a, savedIn(a, s), done)
			h, err := newProxy(a, s, l, measured, refused, nil, boundsOf(a, s, false), kept)
			if err != nil {
				return err
			}
			var opened listeners
			defer func() { err = errors.Join(err, opened.close()) }()
			if err := opened.proxy(ctx, a, s, h); err != nil {
				return err
			}
			probes := web.NewProbes(l, &web.Options{Clock: a.Clock, Log: a.Log, Metrics: measured, Hosts: s.Hosts})
			if err := opened.probes(ctx, a, s, probes, "ingestor proxy"); err != nil {
				return err
			}
			hangups.Reload(ctx, a, s, true, done, func(_ context.Context, next *settings.Settings) error {
				update, err := reloadedProxy(a, h, s, next)
				if err == nil {
					err = l.SetBook(next.Book)
				}
				if err == nil {
					update()
				}
				return err
			})
			return opened.serve(ctx, a, measured)
		})
	})
	cmd.Flags().StringVar(&keep.file, "record", "", "`file` to append a line to for each call, for ingestor costs draft")
	cmd.Flags().IntVar(&keep.megabytes, "record-mb", 64, "`megabytes` after which no more calls are recorded")
	settings.AddFlags(cmd, cmd.Flags(), settings.ForServers, "listen", "insecure", "trusted_proxies", "token_file")
	return cmd
}

type recording struct {
	file      string // "": they are not
	megabytes int
}

// open opens the recording, or returns nil.
func (k *recording) open(a *session.Session, s *settings.Settings) (*record.Recorder, error) {
	switch {
	case k.file == "":
		return nil, nil
	case k.megabytes < 1:
		return nil, console.Usage("--record-mb must be 1 or more")
	}
	r, err := record.Open(k.file, int64(k.megabytes)<<20, proxy.Segments(s.Book), a.Clock, a.Log)
	if err != nil {
		return nil, console.Usage("%w", err)
	}
	return r, nil
}

func warnTo(a *session.Session) func(string) {
	return func(warning string) { a.Log.Warn(warning) }
}

func newProxy(a *session.Session, s *settings.Settings, l *quota.Ledger, measured *metrics.Metrics, refused *refusals.Tally, budgets *proxy.Budgets, b bounds, keep *record.Recorder) (*proxy.Handler, error) {
	tokens, keys, err := s.Proxied(warnTo(a))
	if err != nil {
		return nil, err
	}
	key, err := UploadKey(s)
	if err != nil {
		a.Log.Warn("uploads through the proxy end when it is restarted", "error", err)
	}
	h, err := proxy.New(l, tokens, &proxy.Options{
		Base: session.BaseOfAll(s), Clock: a.Clock, Log: a.Log, Metrics: measured, Keys: keys, Hosts: s.Hosts,
		Defaults: proxy.Labels{Job: s.ProxyJob, Region: s.ProxyRegion, Class: s.ProxyClass, Account: s.ProxyAccount, Wait: s.ProxyWait},
		Waiting:  s.ProxyWaiting, Grace: s.ProxyGrace, Refused: refused, Budgets: budgets, UploadKey: key, Connections: b.proxy, Record: keep,
		Metered: func(t http.RoundTripper) http.RoundTripper { return a.Traces.Calls(l, t) },
	})
	if errors.Is(err, quota.ErrBadInput) {
		return nil, console.Config(err)
	}
	return h, err
}

func (ls *listeners) proxy(ctx context.Context, a *session.Session, s *settings.Settings, h *proxy.Handler) error {
	l, err := listen(ctx, s, cmp.Or(s.ProxyListen, settings.ProxyListen), "ingestor proxy --proxy-listen 127.0.0.1:0")
	return ls.add(a, l, err, h.Serve, "proxy on "+s.Scheme()+"://%s")
}

// sameKeys returns an error if the keys of a proxy that runs with the old settings are others
// now. The text of a key file may change: it is read when a key is needed.
func sameKeys(s *settings.Settings, old *settings.Settings) error {
	fault := func(key string) error {
		return fmt.Errorf("%s has changed, and the proxy takes its keys when it starts\nTo use the new value, restart the program, or restore the old one", key)
	}
	switch {
	case s.KeyFile != old.KeyFile:
		return fault("key_file")
	case !maps.Equal(s.Accounts, old.Accounts):
		return fault("accounts")
	case !maps.Equal(s.Keys, old.Keys):
		return fault("keys")
	}
	return nil
}

// reloadedProxy reads the tokens of a proxy again, and returns how to replace them. The proxy
// was started with the settings old.
func reloadedProxy(a *session.Session, h *proxy.Handler, old, next *settings.Settings) (update func(), err error) {
	if err := sameKeys(next, old); err != nil {
		return nil, err
	}
	tokens, _, err := next.Proxied(warnTo(a))
	return func() { h.Update(tokens) }, err
}

// keepRefusals counts the refused calls of callers until done is closed, for the history. A server
// saves them in its catalog.
func keepRefusals(ctx context.Context, a *session.Session, save refusals.Save, done *console.Closers) *refusals.Tally {
	tally := refusals.New(a.Clock)
	done.Go(ctx, func(ctx context.Context) { tally.Keep(ctx, save, a.Log) })
	return tally
}

// savedIn returns how a proxy, which has no catalog open, saves refusals: in the catalog of
// the settings, if there is one.
func savedIn(a *session.Session, s *settings.Settings) refusals.Save {
	return func(ctx context.Context, all []catalog.Refusal) (err error) {
		if s.NoCatalog() != nil {
			return nil
		}
		var done console.Closers
		defer func() {
			if failed := done.Close(); err == nil {
				err = failed
			}
		}()
		c, err := a.OpenCatalog(ctx, s, &done)
		if err != nil {
			return err
		}
		return c.AddRefusals(ctx, all)
	}
}

func TokenCommand(a *session.Session) *cobra.Command {
	cmd := console.Command("token", console.Known, nil)
	cmd.AddCommand(console.Command("new [FILE]", console.Takes(0, 1, "the file to write, or nothing"), func(_ *cobra.Command, args []string) error {
		var secret [32]byte
		_, _ = rand.Read(secret[:]) // it never fails
		text := hex.EncodeToString(secret[:]) + "\n"
		if len(args) == 0 {
			_, err := fmt.Fprint(a.Stdout, text)
			return err
		}
		f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return console.Usage("%s is there already, and may be in use; remove it first, or write another file", args[0])
		}
		if err != nil {
			return fmt.Errorf("write the token: %w", err)
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write the token: %w", err)
		}
		return nil
	}))
	return cmd
}

// UploadKeySize is the length of the key in bytes.
const UploadKeySize = 32

// UploadKey returns the key with which the proxy signs the addresses of uploads. It is kept in
// a file beside the journal, so that uploads outlive a restart of the proxy.
func UploadKey(s *settings.Settings) ([]byte, error) {
	path := filepath.Join(s.State, "proxy-uploads.key")
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		made := make([]byte, UploadKeySize)
		_, _ = rand.Read(made) // it never fails
		if err = s.MakeState(path); err == nil {
			err = console.WriteWhole(path, made, 0o600, false)
		}
		if err == nil || errors.Is(err, fs.ErrExist) { // another process was faster
			key, err = os.ReadFile(path)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the key of uploads: %w", err)
	case len(key) != UploadKeySize:
		return nil, fmt.Errorf("%s is not a key of uploads\nTo have a new one made, remove the file: rm %s", path, shell.Quote(path))
	}
	return key, nil
}
