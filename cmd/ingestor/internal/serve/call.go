package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

type callFlags struct {
	class, account, data string
	wait                 time.Duration
}

const (
	// callJob is the job of calls made by hand, in the spend.
	callJob = "call"
	// manualClass is the class of calls made by hand, if the price book has it.
	manualClass = "manual"
)

func CallCommand(a *session.Session) *cobra.Command {
	var f callFlags
	cmd := console.Command("call METHOD [NAME=VALUE...]", func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return console.Usage("%s needs a method\nTo list all methods: ingestor costs show", cmd.CommandPath())
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error {
		var u *book.Upstream
		var m *book.Method
		var req *http.Request
		ready := func(s *settings.Settings) (err error) {
			if u, m, err = methodOf(s.Book, args[0]); err != nil {
				return err
			}
			if _, has := u.Classes[manualClass]; has && !cmd.Flags().Changed("class") {
				f.class = manualClass
			}
			req, err = f.request(cmd.Context(), a.Stdin, u, m, args[1:])
			return err
		}
		return a.WithMeter(cmd, console.ExitFailed, ready, func(ctx context.Context, s *settings.Settings, l *quota.Ledger, _ *console.Closers) error {
			keys, err := s.AllKeys()
			if err != nil {
				return err
			}
			if err := f.checkKey(keys, u); err != nil {
				return err
			}
			var used []string // its own, and those of upstreams to which it could spill
			for name, source := range keys {
				keys[name] = func(ctx context.Context) (string, error) {
					key, err := source(ctx)
					used = append(used, key)
					return key, err
				}
			}
			t, err := meter.New(l, &meter.Options{Base: session.BaseOfAll(s), Logger: a.Log, Keys: keys, MaxWait: f.wait})
			if err != nil {
				return err
			}
			recorded, record := charged.With(req.Context())
			resp, err := f.send(req.WithContext(recorded), a.Traces.Calls(l, t))
			if err != nil {
				return errors.Join(err, t.Flush(ctx))
			}
			err = showAnswer(a, resp, used)
			if failed := t.Flush(ctx); failed != nil {
				return errors.Join(err, failed)
			}
			if to := resp.Header.Get(meter.SpilledHeader); to != "" {
				fmt.Fprintf(a.Stderr, "%s went to %s\n", m.Name, to)
			}
			fmt.Fprintf(a.Stderr, "%s cost %s\n", m.Name, costOf(record.Units()))
			if status := resp.StatusCode; err == nil && status >= http.StatusBadRequest {
				return &console.Exit{Code: console.ExitFailed, Err: fmt.Errorf("the upstream answered with status %d %s", status, http.StatusText(status))}
			}
			return err
		})
	}, a.CompleteFirst(session.MethodNames))
	cmd.Flags().StringVar(&f.class, "class", "", "`class` of the call (default manual, if the price book has it)")
	cmd.Flags().StringVar(&f.account, "account", "", "`account` that is charged (default the one called default)")
	cmd.Flags().StringVar(&f.data, "data", "", "`file` with the body of the request; - is standard input")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "longest `duration` to wait for units (default 0s)")
	return cmd
}

// checkKey returns an error if the call's account has no key, and others of its upstream do.
func (f *callFlags) checkKey(keys map[string]meter.KeySource, u *book.Upstream) error {
	account := cmp.Or(f.account, quota.DefaultAccount)
	name, others := u.Name+"@"+account, false
	for key := range keys {
		upstream, owner, named := strings.Cut(key, "@")
		if upstream != u.Name {
			continue
		}
		if others = true; !named && account == quota.DefaultAccount || owner == account || owner == book.OtherAccounts && u.AnyAccount {
			return nil
		}
	}
	switch {
	case !others || account == quota.DefaultAccount && u.AccountFrom != (book.AccountFrom{}): // the host may name the account
		return nil
	case account == quota.DefaultAccount:
		name = u.Name
	}
	remedy := fmt.Sprintf("keys: {%q: {file: FILE}}", name)
	if u.Name == settings.Metered {
		remedy = fmt.Sprintf("accounts: {%s: {key_file: FILE}}", account)
	}
	return &console.Exit{Code: console.ExitCredential, Err: fmt.Errorf("the account %s of %s has no key\nAdd it to ingestor.yaml: %s", account, u.Name, remedy)}
}

// showAnswer writes an answer to standard output while it comes, whatever its size. It may
// repeat a key, which is left out.
func showAnswer(a *session.Session, resp *http.Response, keys []string) error {
	for _, key := range keys {
		proxy.Hide(resp, key)
	}
	_, err := io.Copy(a.Stdout, resp.Body)
	if _, unwritten := errors.AsType[*os.PathError](err); err != nil && !unwritten {
		err = &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("the answer broke off: %w", err)}
	}
	return errors.Join(err, resp.Body.Close())
}

func methodOf(b *quota.Book, name string) (*book.Upstream, *book.Method, error) {
	if upstream, method, named := strings.Cut(name, "/"); named {
		if u := b.Upstreams[upstream]; u != nil && u.Methods[method] != nil {
			return u, u.Methods[method], nil
		}
	}
	return session.FindMethod(b, name)
}

// request makes the request of a call by the first route of its method.
func (f *callFlags) request(ctx context.Context, stdin io.Reader, u *book.Upstream, m *book.Method, args []string) (*http.Request, error) {
	if len(m.Routes) == 0 {
		return nil, console.Usage("method %s has no route in the price book, so it cannot be called over HTTP", m.Name)
	}
	values := url.Values{}
	for _, arg := range args {
		name, value, is := strings.Cut(arg, "=")
		if !is || name == "" {
			return nil, console.Usage("%q is not NAME=VALUE, as id=abc", arg)
		}
		if name == u.Key.Query {
			return nil, console.Usage("leave %s out: the key is added, and a URL would show it", name)
		}
		values.Add(name, value)
	}
	route := m.Routes[0]
	path, missing := route.Fill(func(name string) (string, bool) {
		given := values.Get(name)
		values.Del(name)
		return given, given != ""
	})
	if missing != "" {
		return nil, console.Usage("the route %s needs %s=VALUE", route.Path, missing)
	}
	address := proxy.Address(u, f.account, path)
	if address == "" {
		return nil, console.Usage("the price book has no host of %s for this call\nName the account that its host is called by: --account NAME", u.Name)
	}
	if len(values) > 0 {
		address += "?" + values.Encode()
	}
	body, err := f.body(stdin)
	if err != nil {
		return nil, err
	}
	verb := route.Verb
	if verb == "*" {
		verb = http.MethodGet
	}
	ctx = meter.WithJob(ctx, callJob)
	if u.AccountFrom == (book.AccountFrom{}) && f.account != "" {
		ctx = meter.WithAccount(ctx, f.account)
	}
	req, err := http.NewRequestWithContext(ctx, verb, address, body)
	if err != nil {
		return nil, console.Usage("%w", err)
	}
	if f.account != "" && u.AccountFrom.Header != "" {
		req.Header.Set(u.AccountFrom.Header, f.account)
	}
	if f.data != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "headroom-ingestor")
	return req, nil
}

func (f *callFlags) body(stdin io.Reader) (io.Reader, error) {
	switch f.data {
	case "":
		return nil, nil
	case "-":
		return stdin, nil
	}
	text, err := os.ReadFile(f.data)
	if err != nil {
		return nil, console.Usage("--data: %w", err)
	}
	return strings.NewReader(string(text)), nil
}

func (f *callFlags) send(req *http.Request, t http.RoundTripper) (*http.Response, error) {
	req = req.WithContext(meter.WithClass(req.Context(), f.class))
	resp, err := (&http.Client{Transport: t}).Do(req)
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err // which is ours, and names the call
	}
	if err != nil {
		if ours := errors.Is(err, quota.ErrRefused) || errors.Is(err, meter.ErrCredential) || console.ExitCode(err) != console.ExitFailed; !ours {
			err = &console.Exit{Code: console.ExitDown, Err: err}
		}
		return nil, err
	}
	return resp, nil
}

func costOf(charges map[quota.Pool]int64) string {
	var parts []string
	bill := int64(0) // that of each budget
	for pool, n := range charges {
		switch {
		case pool.IsMoney():
			bill = n
		case n != 0:
			parts = append(parts, view.Units("", n)+" of "+pool.String())
		}
	}
	slices.Sort(parts)
	if bill != 0 {
		parts = slices.Insert(parts, 0, book.FormatMoney(bill))
	}
	return cmp.Or(strings.Join(parts, " and "), "nothing")
}
