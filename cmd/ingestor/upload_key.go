package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/internal/shell"
)

// uploadKeySize is the length of the key in bytes.
const uploadKeySize = 32

// uploadKey returns the key with which the proxy signs the addresses of uploads. It is kept in
// a file beside the journal, so that uploads outlive a restart of the proxy.
func (s *settings) uploadKey() ([]byte, error) {
	path := filepath.Join(s.state, "proxy-uploads.key")
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeUploadKey(path); err == nil {
			key, err = os.ReadFile(path)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the key of uploads: %w", err)
	case len(key) != uploadKeySize:
		return nil, fmt.Errorf("%s is not a key of uploads\nTo have a new one made, remove the file: rm %s", path, shell.Quote(path))
	}
	return key, nil
}

// makeUploadKey writes a new key, unless another process has written one meanwhile.
func (s *settings) makeUploadKey(path string) error {
	if err := s.makeState(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.state, ".uploads-*")
	if err != nil {
		return err
	}
	var key [uploadKeySize]byte
	_, _ = rand.Read(key[:]) // it never fails
	_, err = f.Write(key[:])
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), path) // never in the place of another one
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}
