package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// KeySources returns the sources of the API keys, by account. Each is read when it is needed.
func (s *Settings) KeySources() map[string]meter.KeySource {
	keys := map[string]meter.KeySource{
		Metered: func(context.Context) (string, error) {
			if key := strings.TrimSpace(os.Getenv("YOUTUBE_API_KEY")); key != "" {
				return checkKey(key, "YOUTUBE_API_KEY")
			}
			if s.KeyFile == "" {
				return "", errors.New("set YOUTUBE_API_KEY, or key_file in the configuration")
			}
			return readKey(s.KeyFile)
		},
	}
	if s.Key != nil {
		keys[Metered] = s.Key
	}
	for name, account := range s.Accounts {
		keys[Metered+"@"+name] = func(context.Context) (string, error) { return readKey(account.KeyFile) }
	}
	return keys
}

// KeyOf returns the name of the key of an account, or of the default one if the name is empty.
func KeyOf(account string) string {
	if account == "" || account == quota.DefaultAccount {
		return Metered
	}
	return Metered + "@" + account
}

func readKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no key file %s", path)
	}
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	return checkKey(strings.TrimSpace(string(text)), path)
}

// checkKey returns an error if a text cannot be a key. The error does not show it.
func checkKey(key, where string) (string, error) {
	switch {
	case key == "":
		return "", fmt.Errorf("%s is empty; write the key into it", where)
	case strings.HasPrefix(key, "YOUTUBE_API_KEY"):
		return "", fmt.Errorf("%s has a name before its key; write the key alone", where)
	case strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
		return "", fmt.Errorf("%s holds more than a key; write the key alone, on one line", where)
	}
	return key, nil
}

// TokenVariable holds the token without a name itself. It is not a setting, because
// settings are shown.
const TokenVariable = "INGESTOR_TOKEN"

// caller is a program that reserves over HTTP with a token of its own.
type caller struct {
	File   string         `yaml:"file" doc:"A file with its token. To make one: ingestor token new FILE."`
	Rights []access.Right `yaml:"rights,omitempty" words:"reserve|read|limits|operate" doc:"What it may do: reserve units of pools, read the pools, and charge limits, which are the families of the price book. All these if empty. A person who acts on the pages, or changes limits of keys over HTTP, needs operate."`
	Calls  access.Grant   `yaml:"calls,omitempty" doc:"What it may call through ingestor proxy; without it, nothing. It bounds what the token may do over HTTP, too. A token with calls and no rights has no other right."`
}

// callerName is the form of a caller's name. It begins the name of its jobs in the spend.
var (
	CallerName    = pattern.Of(`^[a-z0-9][a-z0-9_-]{0,39}$`)
	ErrCallerName = errors.New("a name has up to 40 lower-case letters, digits, - and _")
)

func (s *Settings) checkCallers() (faults faults) {
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		path := "tokens." + name
		if !CallerName().MatchString(name) {
			faults.add(path, "%w", ErrCallerName)
		}
		if s.Tokens[name].File == "" {
			faults.add(path, "name the file of its token: {file: PATH}\nTo make one: ingestor token new PATH")
		}
		for _, right := range s.Tokens[name].Rights {
			if !slices.Contains(append(slices.Clip(access.Rights), access.Operate), right) {
				faults.add(path, "there is no right %q; there are reserve, read, limits and operate", right)
			}
		}
	}
	return faults
}

// CallerTokens returns the tokens of those who may reserve over HTTP. Without one, nobody can.
func (s *Settings) CallerTokens(warn func(string)) (all []*access.Token, err error) {
	text := os.Getenv(TokenVariable)
	switch {
	case text != "":
		all, err = addToken(all, TokenVariable, "", text, nil, nil)
	case s.TokenFile != "":
		all, err = readToken(all, "token_file", "", s.TokenFile, nil, nil, warn)
	}
	if err != nil {
		return nil, err
	}
	grants := s.Grants()
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		if s.Tokens[name].OnlyCalls() {
			continue
		}
		if all, err = readToken(all, "tokens."+name, name, s.Tokens[name].File, s.Tokens[name].Rights, grants[name], warn); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readToken(all []*access.Token, setting, name, path string, rights []access.Right, grant *access.Grant, warn func(string)) ([]*access.Token, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, console.Config(fmt.Errorf("%s: there is no %s\nTo create one: ingestor token new FILE", setting, path))
	}
	if err != nil {
		return nil, console.Config(fmt.Errorf("%s: %w", setting, err))
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		warn(fmt.Sprintf("other users can read %s\nTo prevent that: chmod 600 %[1]s", path))
	}
	return addToken(all, setting+": "+path, name, string(text), rights, grant)
}

// addToken adds a token after checking it. White space around it is ignored. Without
// rights it has all.
func addToken(all []*access.Token, from, name, text string, rights []access.Right, grant *access.Grant) ([]*access.Token, error) {
	if len(rights) == 0 {
		rights = access.Rights
	}
	token, err := access.New(name, strings.TrimSpace(text), rights...)
	if err != nil {
		return nil, console.Config(fmt.Errorf("%s: %w", from, err))
	}
	if slices.ContainsFunc(all, token.Same) {
		return nil, console.Config(fmt.Errorf("%s: another caller has the same token; each needs its own: ingestor token new FILE", from))
	}
	return append(all, token.Bound(grant)), nil
}
