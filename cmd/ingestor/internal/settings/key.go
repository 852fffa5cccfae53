package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

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
