// Package agents is a tool server for agents, in the Model Context Protocol. An agent that
// calls metered APIs by itself reserves units first, and settles the call afterwards. Each
// session has a budget, and labels that the agent cannot change. What it reserves and does
// not settle counts as spent, as it does for every caller of the ledger.
package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Options are the settings of [Serve].
type Options struct {
	Budget    int64         // units that the session may spend, of all pools together; 0: no bound
	Job       string        // labels of its calls in the spend
	Class     string        //
	Account   string        // that is charged; empty is the default one
	Upstreams []string      // that it may reserve for; none: all of the price book
	Wait      time.Duration // longest time that a call waits for units
	Version   string        // of the program
	Log       *slog.Logger  // nil: slog.Default()
	// Trace follows a reservation until the returned function is called. It may be nil.
	Trace func(context.Context) func(*quota.Reservation, error)
}

const instructions = `Reserve units before each call of a metered API, and make the call only if the answer has allowed: true.
If it cost something else than its price, settle it. If it was certainly never sent, settle it with never_sent.
A refused call may be made after retry_after seconds. Units of the session's budget do not come back.`

// Serve serves one session, until its client hangs up or ctx ends. Calls that wait for units
// end then.
func Serve(ctx context.Context, l *quota.Ledger, in io.Reader, out io.Writer, o *Options) error {
	s := newSession(ctx, l, o)
	defer s.end()
	server := mcp.NewServer(&mcp.Implementation{Name: "ingestor", Title: "Headroom", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: slog.New(quiet{s.log.Handler()}), Capabilities: &mcp.ServerCapabilities{},
	})
	add(s, server, "reserve", "Take the units of a call before it is made. Make the call only if allowed is true.", false, s.reserve)
	add(s, server, "settle", "Correct a reservation to what the call really cost, or give it back if it was never sent.", false, s.settle)
	add(s, server, "quota", "Show what is left of the quotas, and of the budget of this session.", true, s.quota)
	add(s, server, "plan", "Price calls ahead of time: what they would cost, and whether they fit now. It takes no units.", true, s.plan)
	to := &replies{to: out}
	err := server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(&lines{from: bufio.NewReader(in), to: to}), Writer: to})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // it was told to stop, or the client hung up
	}
	return err
}

// add adds a tool. No call begins after the end of the session, and those under way end with
// it.
func add[In, Out any](s *session, server *mcp.Server, name, about string, reads bool, do func(context.Context, In) (Out, error)) {
	no := false
	tool := &mcp.Tool{Name: name, Description: about, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads, DestructiveHint: &no, OpenWorldHint: &no}}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (_ *mcp.CallToolResult, out Out, err error) {
		ctx, done, err := s.begin(ctx)
		if err != nil {
			return nil, out, err
		}
		defer done()
		out, err = do(ctx, in)
		return nil, out, s.hide(err)
	})
}

// hide returns an error for the agent. It holds no files and no addresses.
func (s *session) hide(err error) error {
	if err == nil || errors.Is(err, context.Canceled) { // the agent does not wait for the answer
		return err
	}
	p := problem.Of(s.ledger.Book(), err)
	if p.Status >= 500 {
		s.log.Warn("a tool failed", "error", err)
	}
	if len(p.Known) > 0 {
		return fmt.Errorf("%w; the methods are %s", p, strings.Join(p.Known, ", "))
	}
	return p
}

// wantedPools are the arguments of the tool quota.
type wantedPools struct {
	Upstream string `json:"upstream,omitempty" jsonschema:"only the pools of this upstream"`
}

// pools is the answer of the tool quota.
type pools struct {
	Pools   []view.Pool `json:"pools"`
	Session *budget     `json:"session,omitempty"`
}

func (s *session) quota(ctx context.Context, in wantedPools) (pools, error) {
	if err := s.may(in.Upstream); err != nil {
		return pools{}, err
	}
	all, err := s.ledger.View().Usage(ctx, in.Upstream, s.o.Account)
	if err != nil {
		return pools{}, err
	}
	all = slices.DeleteFunc(all, func(u quota.Usage) bool {
		if u.Pool.IsMoney() { // those of others are not its business
			return u.Pool.Key != "" && u.Pool.Key != book.CallerOf(s.o.Job)
		}
		return s.may(u.Pool.Upstream) != nil
	})
	return pools{view.Pools(all), s.budget()}, nil
}

// quiet logs what the SDK warns of, and leaves out its daily work.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, slog.LevelDebug)
}

// lines reads messages, one a line. The SDK ends a session at a line that it cannot read, so
// such a line is answered here and left out.
type lines struct {
	from    *bufio.Reader
	to      *replies
	line    []byte
	batches bool // the client's version of the protocol has arrays of messages
}

// noBatches is the first version of the protocol without arrays of messages.
const noBatches = "2025-06-18"

func (l *lines) Read(p []byte) (int, error) {
	for len(l.line) == 0 {
		line, err := l.next()
		if len(bytes.TrimSpace(line)) > 0 {
			if wrong := l.fault(line); wrong != nil {
				_, _ = fmt.Fprintf(l.to, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", wrong.Code, wrong.Message)
			} else {
				l.line = append(bytes.TrimSpace(line), '\n')
			}
		}
		if err != nil && len(l.line) == 0 {
			return 0, err
		}
	}
	n := copy(p, l.line)
	l.line = l.line[n:]
	return n, nil
}

// next reads a line. One that is too long is cut, and so cannot be read.
func (l *lines) next() (line []byte, err error) {
	for {
		part, err := l.from.ReadSlice('\n')
		if len(line) <= mcp.DefaultMaxLineLength {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// fault returns what is wrong with a line, or nil.
func (l *lines) fault(line []byte) *jsonrpc.Error {
	switch {
	case len(line) > mcp.DefaultMaxLineLength:
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("the line is longer than %d bytes", mcp.DefaultMaxLineLength)}
	case !json.Valid(line):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON; write one message a line"}
	}
	all := []json.RawMessage{line}
	if line = bytes.TrimSpace(line); line[0] == '[' {
		if !l.batches {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this version of the protocol has no arrays; write one message a line"}
		}
		all = nil
		_ = json.Unmarshal(line, &all) // it is valid
	}
	wrong, ids := len(all) == 0, map[jsonrpc.ID]bool{}
	for _, one := range all {
		message, err := jsonrpc.DecodeMessage(one)
		wrong = wrong || message == nil || err != nil
		r, ok := message.(*jsonrpc.Request)
		if ok && r.IsCall() {
			wrong, ids[r.ID] = wrong || ids[r.ID], true
		}
		if ok && r.Method == "initialize" { //nolint:misspell // the protocol spells it so
			var params struct{ ProtocolVersion string }
			_ = json.Unmarshal(r.Params, &params) // the SDK says what is wrong
			l.batches = params.ProtocolVersion != "" && params.ProtocolVersion < noBatches
		}
	}
	if wrong {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the line is not a message of JSON-RPC 2.0"}
	}
	return nil
}

// replies is where messages are written, one at a time. Others close it.
type replies struct {
	mu sync.Mutex
	to io.Writer
}

func (r *replies) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to.Write(p)
}

func (*replies) Close() error { return nil }
