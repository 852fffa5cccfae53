package agents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
