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
)

// maxLine bounds a line of the output of a program.
const maxLine = 1 << 20

// keepState copies the output of a program, line by line, and keeps its last STATE message,
// as Singer defines it, in a file. A line is passed on before the state that follows it is
// kept, so that nothing is lost if the process is killed between the two. An incomplete line
// is left out: the program was killed while it wrote it. A file is on the disk before the
// state is. A line longer than maxLine is an
// error, because it is held in memory.
func keepState(to io.Writer, from io.Reader, file string) error {
	lines := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return errors.New("the program wrote a line longer than 1 MiB; if its state is kept, its output has to be lines of text")
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return fmt.Errorf("read the output of the program: %w", err)
		}
		if _, err := to.Write(line); err != nil {
			return fmt.Errorf("pass on the output of the program: %w", err)
		}
		if !bytes.Contains(line, []byte(`"STATE"`)) {
			continue
		}
		var message struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		}
		if json.Unmarshal(line, &message) != nil || message.Type != "STATE" {
			continue
		}
		if f, ok := to.(*os.File); ok {
			_ = f.Sync() // pipes and terminals cannot
		}
		if err := replaceFile(file, append(message.Value, '\n')); err != nil {
			return fmt.Errorf("keep the state of the program: %w", err)
		}
	}
}

// replaceFile writes a file such that it always has either its old text or its new one.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".state-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
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

// cutLastLine removes an incomplete last line from a file.
func cutLastLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	end := make([]byte, min(info.Size(), maxLine+1))
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return err
	}
	torn := len(end) - 1 - bytes.LastIndexByte(end, '\n')
	if torn == 0 || torn == len(end) && info.Size() > maxLine { // of another program: we write no such line
		return nil
	}
	return f.Truncate(info.Size() - int64(torn))
}
