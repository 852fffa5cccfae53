//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/headroom-quota/headroom/ingest"
)

// settings are those of a daemon, as ingestor.yaml has them.
type settings struct {
	Ledger   string `yaml:"ledger"`
	Database string `yaml:"database"`
	PollOnly bool   `yaml:"poll_only,omitempty"`
	Endpoint string `yaml:"endpoint"`
	Costs    string `yaml:"costs"`
	Format   string `yaml:"log_format"`
	Level    string `yaml:"log_level"`

	ingest.Config `yaml:",inline"`
}

// text returns the settings as a file.
func (s *settings) text() (string, error) {
	s.Format, s.Level = "text", "debug"
	b, err := yaml.Marshal(s)
	return string(b), err
}

// program builds ingestor once. Only its times are shorter than those of a release.
var program = sync.OnceValues(func() (string, error) {
	times, err := json.Marshal(brief)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "ingestor")
	build := exec.Command("go", "build", "-ldflags", fmt.Sprintf("-s -w -X 'github.com/headroom-quota/headroom/cmd/ingestor/internal/jobs.fleetTiming=%s'", times), "-o", path, "../../../../../cmd/ingestor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ingestor: %w\n%s", err, out)
	}
	return path, nil
})
