package serve

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/internal/shell"
)

func TokenCommand(a *session.Session) *cobra.Command {
	cmd := console.Command("token", console.Known, nil)
	cmd.AddCommand(console.Command("new [FILE]", console.Takes(0, 1, "the file to write, or nothing"), func(_ *cobra.Command, args []string) error {
		var secret [32]byte
		_, _ = rand.Read(secret[:]) // it never fails
		text := hex.EncodeToString(secret[:]) + "\n"
		if len(args) == 0 {
			_, err := fmt.Fprint(a.Stdout, text)
			return err
		}
		f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return console.Usage("%s is there already, and may be in use; remove it first, or write another file", args[0])
		}
		if err != nil {
			return fmt.Errorf("write the token: %w", err)
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write the token: %w", err)
		}
		return nil
	}))
	return cmd
}

// UploadKeySize is the length of the key in bytes.
const UploadKeySize = 32

// UploadKey returns the key with which the proxy signs the addresses of uploads. It is kept in
// a file beside the journal, so that uploads outlive a restart of the proxy.
func UploadKey(s *settings.Settings) ([]byte, error) {
	path := filepath.Join(s.State, "proxy-uploads.key")
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		made := make([]byte, UploadKeySize)
		_, _ = rand.Read(made) // it never fails
		if err = s.MakeState(path); err == nil {
			err = console.WriteWhole(path, made, 0o600, false)
		}
		if err == nil || errors.Is(err, fs.ErrExist) { // another process was faster
			key, err = os.ReadFile(path)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the key of uploads: %w", err)
	case len(key) != UploadKeySize:
		return nil, fmt.Errorf("%s is not a key of uploads\nTo have a new one made, remove the file: rm %s", path, shell.Quote(path))
	}
	return key, nil
}
