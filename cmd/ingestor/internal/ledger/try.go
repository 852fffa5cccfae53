package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/recorded"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

func tryCommand(a *session.Session) *cobra.Command {
	var request, answer string
	cmd := a.Command("try [METHOD]", console.Takes(0, 1, "one method, or none if the request has a request line"), func(cmd *cobra.Command, args []string) error {
		s, err := a.Settings(cmd.Flags())
		if err != nil {
			return err
		}
		c := recording{book: s.Book}
		if len(args) == 1 {
			if c.upstream, c.method, err = session.FindMethod(s.Book, args[0]); err != nil {
				return err
			}
		}
		if err := readRecording(a, &c, request, answer); err != nil {
			return err
		}
		t, err := try(cmd.Context(), a, &c)
		if err != nil {
			return err
		}
		return a.Print(t, func(s *console.Sheet) { writeTried(s, t) })
	}, a.CompleteFirst(session.MethodNames))
	cmd.Flags().StringVar(&request, "request", "", "`file` with the request, or with its JSON body")
	cmd.Flags().StringVar(&answer, "answer", "", "`file` with the answer, as curl -i prints it")
	return cmd
}

type recording struct {
	book     *quota.Book
	upstream *book.Upstream
	method   *book.Method // nil: the request line says
	request  *http.Request
	answer   *recorded.Message
}

func readRecording(a *session.Session, c *recording, request, answer string) error {
	switch {
	case answer == "":
		return console.Usage("--answer is missing: the file with the answer\nTo record one: curl -i URL > answer.txt")
	case request == "" && c.method == nil:
		return console.Usage("--request is missing: the file with the request\nFor a call without a body, name its method: ingestor costs try METHOD --answer %s", shell.Quote(answer))
	case request == "-" && answer == "-":
		return console.Usage("--request and --answer cannot both be the standard input; write one to a file")
	}
	message := &recorded.Message{Header: http.Header{}}
	if request != "" {
		text, err := readMessage(a, request)
		if err != nil {
			return err
		}
		message, err = recorded.ReadRequest(text)
		switch {
		case errors.Is(err, recorded.ErrNotHTTP):
			return console.Usage("the request in %s is neither HTTP nor JSON\nIt may be a JSON body, or begin with a line such as: POST /v1/messages HTTP/1.1", request)
		case err != nil:
			return console.Usage("the request in %s %w", request, err)
		}
	}
	if err := c.line(message, request); err != nil {
		return err
	}
	text, err := readMessage(a, answer)
	if err != nil {
		return err
	}
	c.answer, err = recorded.ReadAnswer(text)
	switch {
	case errors.Is(err, recorded.ErrNotHTTP):
		return console.Usage("the answer in %s is neither HTTP nor JSON\nTo record one with its headers: curl -i URL > answer.txt", answer)
	case errors.Is(err, recorded.ErrEmpty):
		return console.Usage("the answer in %s is empty\nTo record one with its headers: curl -i URL > answer.txt", answer)
	case err != nil:
		return console.Usage("the answer in %s %w", answer, err)
	}
	return nil
}

// readMessage reads a file, or the standard input.
func readMessage(a *session.Session, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.Stdin)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, console.Usage("%w\nTo record an answer: curl -i URL > answer.txt", err)
	}
	return text, nil
}

// line makes the request of a message, and finds its method.
func (c *recording) line(m *recorded.Message, path string) error {
	if m.First == "" {
		switch {
		case c.method == nil:
			return console.Usage("%s has no request line, so the method is not known\nName it: ingestor costs try METHOD --request %s --answer FILE", path, shell.Quote(path))
		case len(c.method.Routes) == 0:
			return console.Usage("method %s has no route, so it is not metered over HTTP\nAdd one to the price book, such as route: POST /v1/%[1]s", c.method.Name)
		}
		m.First = firstRoute(c.method.Routes[0], len(m.Body) > 0)
	}
	host := ""
	switch {
	case c.upstream != nil:
		host = firstHost(c.upstream)
	case len(c.book.Metered()) == 1:
		host = firstHost(c.book.Upstreams[c.book.Metered()[0]])
	}
	req, err := m.Request(host)
	switch {
	case err != nil:
		return console.Usage("the request in %s %w", path, err)
	case req.URL.Host == "":
		return console.Usage("the request in %s does not say where it goes\nAdd a line below the first one, such as: Host: api.example.com", path)
	}
	found := c.book.Match(req.Method, req.URL.Host, req.URL.EscapedPath())
	switch {
	case found.Upstream == nil:
		return console.Usage("no upstream of the price book has %s%s\nIts hosts: %s", req.URL.Host, req.URL.EscapedPath(), strings.Join(hosts(c.book), ", "))
	case c.method != nil && found.Method != c.method:
		is := "no method"
		if found.Method != nil {
			is = "the method " + found.Method.Name
		}
		return console.Usage("the request %s %s is %s, not %s\nLeave out %[4]s, or send one of its routes: %[5]s", req.Method, req.URL.EscapedPath(), is, c.method.Name, routes(c.method))
	}
	c.upstream, c.method, c.request = found.Upstream, found.Method, req
	return nil
}

// firstRoute makes a request line of a route, with a word in the place of each {name}.
func firstRoute(r book.Route, body bool) string {
	verb := r.Verb
	if verb == "*" {
		if verb = http.MethodGet; body {
			verb = http.MethodPost
		}
	}
	return verb + " " + strings.NewReplacer("{", "", "...}", "", "}", "").Replace(r.Path)
}

func firstHost(u *book.Upstream) string {
	if len(u.Hosts) == 0 {
		return ""
	}
	host, _, _ := strings.Cut(u.Hosts[0], "/")
	return strings.Replace(host, "*", "example", 1)
}

func hosts(b *quota.Book) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(b.Upstreams)) {
		all = append(all, b.Upstreams[name].Hosts...)
	}
	return all
}

func routes(m *book.Method) string {
	all := make([]string, len(m.Routes))
	for i, r := range m.Routes {
		all[i] = r.String()
	}
	return strings.Join(all, ", ")
}

func try(ctx context.Context, a *session.Session, c *recording) (*tried, error) {
	start := c.answer.Date()
	if start.IsZero() {
		start = a.Now()
	}
	player, err := recorded.New(c.book, start)
	if err != nil {
		return nil, err
	}
	if u := c.upstream; !u.AnyAccount && u.AccountFrom == (book.AccountFrom{}) && !slices.Contains(u.Accounts, quota.DefaultAccount) {
		ctx = meter.WithAccount(ctx, u.Accounts[0])
	}
	out, err := player.Call(ctx, c.request, c.answer)
	if err != nil {
		return nil, err
	}
	if out.Err != nil && out.Pools == nil {
		return nil, fmt.Errorf("the call is not sent: %w", out.Err)
	}
	return newTried(c, out, start), nil
}
