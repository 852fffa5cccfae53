package program

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/internal/pattern"
)

// maxLine bounds a line of the output of a program, because it is held in memory.
const maxLine = 64 << 20

// keepState copies the output of a program, line by line, and keeps its last STATE message,
// as Singer defines it, in a file. If it never does, kept is false. A line is passed on before
// the state that follows it is kept, so that nothing is lost if the process is killed between
// the two. An incomplete line is left out: the program was killed while it wrote it. A file is
// on the disk before the state is.
func keepState(to io.Writer, from io.Reader, file string) (kept bool, err error) {
	lines := bufio.NewReaderSize(from, 64<<10)
	var singer bool
	var line []byte
	for {
		line, err = readLine(lines, line[:0])
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return kept, nil
		case err != nil:
			return kept, fmt.Errorf("read the output of the program: %w", err)
		}
		if _, err := to.Write(line); err != nil {
			return kept, fmt.Errorf("pass on the output of the program: %w", err)
		}
		state, message := stateOf(line, singer)
		if singer = singer || message; state == nil {
			continue
		}
		if f, ok := to.(*os.File); ok {
			_ = f.Sync() // pipes and terminals cannot
		}
		if err := replaceFile(file, append(state, '\n')); err != nil {
			return kept, fmt.Errorf("keep the state of the program: %w", err)
		}
		kept = true
	}
}

// readLine appends the next line to a buffer.
func readLine(from *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return line, fmt.Errorf("a line is longer than %d MiB; if its state is kept, its output has to be lines of text", maxLine>>20)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// messages are the beginnings of Singer's messages other than STATE, as most taps write them.
// They are the most, so they are not parsed.
var messages = pattern.Of(`^\s*\{\s*"type"\s*:\s*"(RECORD|SCHEMA|BATCH|ACTIVATE_VERSION)"`)

// stateOf returns the state in a line of output, or nil, and whether the line is a message of
// a tap. A tap writes the state in a message, and a target the bare state. A line that is an
// object without a type is taken for that, if the program writes no messages.
func stateOf(line []byte, singer bool) (state json.RawMessage, message bool) {
	if messages().Match(line[:min(len(line), 256)]) {
		return nil, true
	}
	if singer && !bytes.Contains(line, []byte(`"STATE"`)) {
		return nil, true
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		return nil, false
	}
	switch kind, typed := fields["type"]; {
	case string(kind) == `"STATE"`:
		return fields["value"], true
	case typed:
		return nil, true
	case singer:
		return nil, false
	}
	return bytes.TrimSpace(line), false
}

// emptyState is the state of a program that has not written one.
const emptyState = "{}\n"

// beginState makes a state file with an empty object if there is none: a tap that is given
// the name of a file wants to read it. It reports whether the file has a state.
func beginState(file string) (has bool, err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) // through a link, too
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(len(emptyState))+1))
	if err == nil && len(text) == 0 {
		_, err = f.WriteString(emptyState)
	}
	return len(text) > 0 && string(text) != emptyState, errors.Join(err, f.Close())
}

// replaceFile writes a file such that it always has either its old text or its new one. It
// keeps the mode of the file, and a link to it.
func replaceFile(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".state-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// OpenOutput opens a file to append the output of a program to. If the state of the program is
// kept, an incomplete last line is removed: this process was killed while it wrote it, and
// the program writes it again.
func OpenOutput(path string, state bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil || !state {
		return f, err
	}
	err = cutLastLine(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("remove an incomplete line from %s: %w", path, err), f.Close())
	}
	return f, nil
}

func cutLastLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	torn := int64(0) // bytes after the last line
	for chunk := make([]byte, 64<<10); torn < info.Size(); {
		if torn > maxLine { // of another program: we write no such line
			return nil
		}
		part := chunk[:min(int64(len(chunk)), info.Size()-torn)]
		if _, err := f.ReadAt(part, info.Size()-torn-int64(len(part))); err != nil {
			return err
		}
		end := bytes.LastIndexByte(part, '\n')
		torn += int64(len(part) - 1 - end)
		if end >= 0 {
			break
		}
	}
	if torn == 0 {
		return nil
	}
	return f.Truncate(info.Size() - torn)
}
