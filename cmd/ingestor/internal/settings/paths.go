package settings

import (
	"path/filepath"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota/open"
)

// absolute makes the paths of settings absolute, so that they mean the same wherever
// the program is started: those in the file begin where the file is, those of flags
// and variables where the program is.
func (s *Settings) absolute() error {
	for key, path := range map[string]*string{"catalog": &s.Catalog, "costs": &s.Costs, "key_file": &s.KeyFile, "token_file": &s.TokenFile, "socket": &s.Socket, "google_credentials": &s.GoogleCredentials} {
		if err := s.anchor(path, s.Source(key)); err != nil {
			return err
		}
	}
	for name, a := range s.Accounts {
		if err := s.anchor(&a.KeyFile, FromFile); err != nil {
			return err
		}
		s.Accounts[name] = a
	}
	for name, c := range s.Tokens {
		if err := s.anchor(&c.File, FromFile); err != nil {
			return err
		}
		s.Tokens[name] = c
	}
	for name, k := range s.Keys {
		if err := s.anchor(&k.File, FromFile); err != nil {
			return err
		}
		s.Keys[name] = k
	}
	for name, t := range s.Notify {
		if err := s.anchor(&t.Secret, FromFile); err != nil {
			return err
		}
		s.Notify[name] = t
	}
	for name, j := range s.Jobs {
		if !j.Kind.Runs() {
			continue
		}
		j.Dir = filepath.Dir(s.File)
		for _, path := range []*string{&j.State, &j.Output} {
			if err := s.anchor(path, FromFile); err != nil {
				return err
			}
		}
		s.Jobs[name] = j
	}
	at, err := open.Parse(s.Ledger)
	if err != nil {
		return nil // check says where it stands
	}
	if err := s.anchor(&at.File, s.Source("ledger")); err != nil {
		return err
	}
	s.Ledger, s.Fresh = at.String(), at.Fresh
	return nil
}

// anchor makes a path absolute. It leaves an empty path empty, and the name of a built-in
// price book as it is.
func (s *Settings) anchor(path *string, from string) (err error) {
	switch {
	case *path == "" || filepath.IsAbs(*path) || path == &s.Costs && headroom.IsBuiltin(*path):
		return nil
	case from == FromFile:
		*path = filepath.Join(filepath.Dir(s.File), *path)
		return nil
	}
	*path, err = filepath.Abs(*path)
	return err
}
