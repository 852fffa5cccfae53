package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/headroom-quota/headroom/internal/web"
)

// tokenVariable holds the token itself. It is no setting: those are shown.
const tokenVariable = "INGESTOR_TOKEN"

// token is what those who reserve over HTTP must present; nil if nobody may.
func (a *app) token(s *settings) (*web.Token, error) {
	if text := os.Getenv(tokenVariable); text != "" {
		return newToken(tokenVariable, text)
	}
	if s.TokenFile == "" {
		return nil, nil //nolint:nilnil // without a token there is nobody to ask
	}
	text, err := os.ReadFile(s.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, config(fmt.Errorf("token_file: there is no %s; `openssl rand -hex 32` makes a token", s.TokenFile))
	}
	if err != nil {
		return nil, config(fmt.Errorf("token_file: %w", err))
	}
	if info, err := os.Stat(s.TokenFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		a.log.Warn("others on this machine may read the token; chmod 600 it", "token_file", s.TokenFile, "mode", info.Mode().Perm())
	}
	return newToken("token_file: "+s.TokenFile, string(text))
}

// newToken reads a token, which may stand on a line of its own.
func newToken(from, text string) (*web.Token, error) {
	token, err := web.NewToken(strings.TrimSpace(text))
	if err != nil {
		return nil, config(fmt.Errorf("%s: %w", from, err))
	}
	return token, nil
}
