package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// absolute makes the paths of settings absolute, so that they mean the same wherever
// the program is started: those in the file begin where the file is, those of flags
// and variables where the program is.
func (s *settings) absolute() error {
	for key, path := range map[string]*string{"catalog": &s.Catalog, "costs": &s.Costs, "key_file": &s.KeyFile, "token_file": &s.TokenFile} {
		if err := s.anchor(path, s.source(key)); err != nil {
			return err
		}
	}
	for name, a := range s.Accounts {
		if err := s.anchor(&a.KeyFile, fromFile); err != nil {
			return err
		}
		s.Accounts[name] = a
	}
	s.Ledger, s.fresh = cutFresh(s.Ledger)
	if path, is := strings.CutPrefix(s.Ledger, "sqlite:"); is {
		if err := s.anchor(&path, s.source("ledger")); err != nil {
			return err
		}
		s.Ledger = "sqlite:" + path
	}
	return nil
}

// cutFresh takes the option fresh out of the address of a ledger: it is not for those
// who open the ledger, but says that nothing remembered is compared with it.
func cutFresh(address string) (rest string, fresh bool) {
	before, query, has := strings.Cut(address, "?")
	if !has {
		return address, false
	}
	var others []string
	for option := range strings.SplitSeq(query, "&") {
		if option == "fresh" || option == "fresh=1" {
			fresh = true
		} else {
			others = append(others, option)
		}
	}
	if !fresh {
		return address, false
	}
	if len(others) > 0 {
		before += "?" + strings.Join(others, "&")
	}
	return before, true
}

// anchor makes a path absolute; an empty one is none.
func (s *settings) anchor(path *string, from string) (err error) {
	switch {
	case *path == "" || filepath.IsAbs(*path):
		return nil
	case from == fromFile:
		*path = filepath.Join(filepath.Dir(s.file), *path)
		return nil
	}
	*path, err = filepath.Abs(*path)
	return err
}

// home is the kind of home that the ledger has, and where it is.
func (s *settings) home() (kind, where string, err error) {
	kind, where, colon := strings.Cut(s.Ledger, ":")
	switch {
	case kind == "memory" && colon && where != "":
		return "", "", fmt.Errorf("nothing may stand behind memory: as in %q", s.Ledger)
	case kind == "sqlite" && where == "":
		return "", "", errors.New("name a file, as sqlite:/var/lib/ingestor/ledger.db")
	case kind == "sqlite" && strings.Contains(where, "?fresh"): // a file of that name would be an empty ledger
		return "", "", fmt.Errorf("%q: write ?fresh without a value, or leave it out", s.Ledger)
	case colon && (kind == "memory" || kind == "sqlite" || kind == "redis" || kind == "rediss" || kind == "unix"):
		return kind, where, nil
	case !colon:
		return "", "", fmt.Errorf("%q is not one of memory:, redis://HOST:PORT/DB and sqlite:PATH; is it a file? then write sqlite:%[1]s", s.Ledger)
	}
	return "", "", fmt.Errorf("%q is not one of memory:, redis://HOST:PORT/DB and sqlite:PATH", kind+":") // what follows may be a secret
}
