package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strconv"
)

// lean is a client of one connection, which it keeps open. It sends bytes that were made
// before, and reads only the status and the length of an answer: the processors are for what
// is measured, and net/http's client takes more of them than its server does.
type lean struct {
	conn net.Conn
	in   *bufio.Reader
}

// dial connects one client for each caller.
func dial(server *httptest.Server, callers int) ([]*lean, error) {
	all := make([]*lean, callers)
	for i := range all {
		conn, err := net.Dial("tcp", server.Listener.Addr().String()) //nolint:noctx // on loopback
		if err != nil {
			return nil, err
		}
		all[i] = &lean{conn, bufio.NewReader(conn)}
	}
	return all, nil
}

func hangUp(all []*lean) (err error) {
	for _, l := range all {
		err = errors.Join(err, l.conn.Close())
	}
	return err
}

// ask sends a request, and reads all of the answer.
func (l *lean) ask(request []byte) error {
	if _, err := l.conn.Write(request); err != nil {
		return err
	}
	status, err := l.in.ReadString('\n')
	if err != nil {
		return err
	}
	length := -1
	for {
		line, err := l.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if text, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("the answer does not tell its length")
	}
	if status != "HTTP/1.1 200 OK\r\n" {
		text, err := io.ReadAll(io.LimitReader(l.in, int64(length)))
		return errors.Join(fmt.Errorf("%s: %s", status, text), err)
	}
	_, err = l.in.Discard(length)
	return err
}

// requestTo returns the bytes of a request to reserve.
func requestTo(server *httptest.Server, body string) []byte {
	return fmt.Appendf(nil, "POST /v1/reserve HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		server.Listener.Addr(), tokenText, len(body), body)
}
