package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/headroom-quota/headroom/internal/web"
)

// tokenVariable holds the token itself. It is not a setting, because settings are shown.
const tokenVariable = "INGESTOR_TOKEN"

// token returns the token that clients must present to reserve over HTTP. Nil means that no
// client can. The warning may be empty.
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
		return nil, "", config(fmt.Errorf("token_file: there is no %s\nTo create one: openssl rand -hex 32 > FILE; chmod 600 FILE", s.TokenFile))
	}
	if err != nil {
		return nil, "", config(fmt.Errorf("token_file: %w", err))
	}
	if info, err := os.Stat(s.TokenFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("other users can read %s\nTo prevent that: chmod 600 %[1]s", s.TokenFile)
	}
	token, err = newToken("token_file: "+s.TokenFile, string(text))
	return token, warning, err
}

// newToken checks a token. White space around it is ignored.
func newToken(from, text string) (*web.Token, error) {
	token, err := web.NewToken(strings.TrimSpace(text))
	if err != nil {
		return nil, config(fmt.Errorf("%s: %w", from, err))
	}
	return token, nil
}
