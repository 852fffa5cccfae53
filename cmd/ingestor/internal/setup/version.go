package setup

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

func VersionCommand(a *session.Session) *cobra.Command {
	return a.WithOutput(&cobra.Command{
		Use:     "version",
		Short:   "Show which build this is",
		Long:    `Show the version, the commit, and the Go release and platform of this program.`,
		Example: `  ingestor version --output json`,
		Args:    console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := session.Build()
			return a.Print(v, func(s *console.Sheet) {
				line := "ingestor " + v.Version
				if v.Commit != "" {
					line += " (" + strings.TrimSpace(v.Commit[:min(12, len(v.Commit))]+" "+v.Time)
					if v.Modified {
						line += ", modified"
					}
					line += ")"
				}
				s.Line("%s, %s, %s", line, v.Go, v.Platform)
			})
		},
	})
}
