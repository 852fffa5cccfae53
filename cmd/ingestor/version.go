package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// versionView describes a build, in JSON.
type versionView struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commit_time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show which build this is",
		Long:    `Show the version, the commit, and the Go release and platform of this program.`,
		Example: `  ingestor version --output json`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := build()
			return a.print(v, func(s *sheet) {
				line := "ingestor " + v.Version
				if v.Commit != "" {
					line += " (" + strings.TrimSpace(v.Commit[:min(12, len(v.Commit))]+" "+v.Time)
					if v.Modified {
						line += ", modified"
					}
					line += ")"
				}
				s.line("%s, %s, %s", line, v.Go, v.Platform)
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

// build returns what the Go toolchain wrote into the program.
func build() versionView {
	v := versionView{Version: "(unknown)", Go: runtime.Version(), Platform: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH)}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
