package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/web"
)

// tokenVariable holds the token without a name itself. It is not a setting, because
// settings are shown.
const tokenVariable = "INGESTOR_TOKEN"

// caller is a program that reserves over HTTP with a token of its own.
type caller struct {
	File   string      `yaml:"file" jsonschema_description:"A file with its token. To make one: ingestor token new FILE."`
	Rights []web.Right `yaml:"rights,omitempty" jsonschema:"enum=reserve,enum=read,enum=limits,enum=operate" jsonschema_description:"What it may do: reserve units of pools, read the pools, and charge limits, which are the families of the price book. All these if empty. A person who acts on the pages, or changes limits of keys over HTTP, needs operate."`
	Calls  calls       `yaml:"calls,omitempty" jsonschema_description:"What it may call through ingestor proxy; without it, nothing. It bounds what the token may do over HTTP, too. A token with calls and no rights has no other right."`
}

// callerName is the form of a caller's name. It begins the name of its jobs in the spend.
var (
	callerName    = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)
	errCallerName = errors.New("a name has up to 40 lower-case letters, digits, - and _")
)

// checkCallers checks the callers that have tokens of their own.
func (s *settings) checkCallers() (faults []ingest.Fault) {
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		fault := func(format string, args ...any) {
			faults = append(faults, ingest.Fault{Path: "tokens." + name, Err: fmt.Errorf(format, args...)})
		}
		if !callerName.MatchString(name) {
			fault("%w", errCallerName)
		}
		if s.Tokens[name].File == "" {
			fault("name the file of its token: {file: PATH}\nTo make one: ingestor token new PATH")
		}
		for _, right := range s.Tokens[name].Rights {
			if !slices.Contains(append(slices.Clip(web.Rights), web.Operate), right) {
				fault("there is no right %q; there are reserve, read, limits and operate", right)
			}
		}
	}
	return faults
}

// tokens returns the tokens of those who may reserve over HTTP. Without one, nobody can.
func (s *settings) tokens() (all []*web.Token, warnings []string, err error) {
	text := os.Getenv(tokenVariable)
	switch {
	case text != "":
		all, err = addToken(all, tokenVariable, "", text, nil)
	case s.TokenFile != "":
		all, warnings, err = readToken(all, "token_file", "", s.TokenFile, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	grants := s.grants()
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		if s.Tokens[name].onlyCalls() {
			continue
		}
		var more []string
		if all, more, err = readToken(all, "tokens."+name, name, s.Tokens[name].File, s.Tokens[name].Rights); err != nil {
			return nil, nil, err
		}
		last := &all[len(all)-1]
		*last = (*last).Bound(grants[name])
		warnings = append(warnings, more...)
	}
	return all, warnings, nil
}

// readToken adds the token of a file.
func readToken(all []*web.Token, setting, name, path string, rights []web.Right) (_ []*web.Token, warnings []string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, config(fmt.Errorf("%s: there is no %s\nTo create one: ingestor token new FILE", setting, path))
	}
	if err != nil {
		return nil, nil, config(fmt.Errorf("%s: %w", setting, err))
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		warnings = append(warnings, fmt.Sprintf("other users can read %s\nTo prevent that: chmod 600 %[1]s", path))
	}
	all, err = addToken(all, setting+": "+path, name, string(text), rights)
	return all, warnings, err
}

// addToken adds a token after checking it. White space around it is ignored. Without
// rights it has all.
func addToken(all []*web.Token, from, name, text string, rights []web.Right) ([]*web.Token, error) {
	if len(rights) == 0 {
		rights = web.Rights
	}
	token, err := web.NewToken(name, strings.TrimSpace(text), rights...)
	if err != nil {
		return nil, config(fmt.Errorf("%s: %w", from, err))
	}
	if slices.ContainsFunc(all, token.Same) {
		return nil, config(fmt.Errorf("%s: another caller has the same token; each needs its own: ingestor token new FILE", from))
	}
	return append(all, token), nil
}

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token for a program that reserves over HTTP",
		Long: `Make a token for a program that reserves over HTTP. Each program should have its own,
which the configuration names:

  tokens:
    etl: {file: etl.token, rights: [reserve, read]}

The jobs of that program are then etl, or etl/ and the job that it names, in the spend.`,
		Example: `  ingestor token new etl.token`,
		Args:    known,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "new [FILE]",
		Short: "Make a token, and write it to a new file",
		Long: `Make a random token of 64 characters. It is written to a new file that only you can
read, or without a file to standard output.`,
		Example: `  ingestor token new etl.token`,
		Args:    takes(0, 1, "the file to write, or nothing"),
		RunE: func(_ *cobra.Command, args []string) error {
			var secret [32]byte
			_, _ = rand.Read(secret[:]) // it never fails
			text := hex.EncodeToString(secret[:]) + "\n"
			if len(args) == 0 {
				_, err := fmt.Fprint(a.stdout, text)
				return err
			}
			return writeToken(args[0], text)
		},
	})
	return cmd
}

// writeToken writes a file that did not exist, for its owner alone.
func writeToken(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usage("%s is there already, and may be in use; remove it first, or write another file", path)
	}
	if err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}
