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

// token is what those who reserve over HTTP must present, nil if nobody may, and what
// there is to warn of.
func (s *settings) token() (token *web.Token, warning string, err error) {
	if text := os.Getenv(tokenVariable); text != "" {
		token, err = newToken(tokenVariable, text)
		return token, "", err
	}
	if s.TokenFile == "" {
		return nil, "", nil
	}
	text, err := os.ReadFile(s.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", config(fmt.Errorf("token_file: there is no %s; `openssl rand -hex 32` makes a token", s.TokenFile))
	}
	if err != nil {
		return nil, "", config(fmt.Errorf("token_file: %w", err))
	}
	if info, err := os.Stat(s.TokenFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("others on this machine may read %s; chmod 600 it", s.TokenFile)
	}
	token, err = newToken("token_file: "+s.TokenFile, string(text))
	return token, warning, err
}

// newToken reads a token, which may stand on a line of its own.
func newToken(from, text string) (*web.Token, error) {
	token, err := web.NewToken(strings.TrimSpace(text))
	if err != nil {
		return nil, config(fmt.Errorf("%s: %w", from, err))
	}
	return token, nil
}
