package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

// TestHelpHasTheCommonForm: a line of summary, a paragraph, examples, and flags whose
// placeholders say what to write.
func TestHelpHasTheCommonForm(t *testing.T) {
	var walk func(*cobra.Command)
	seen := 0
	walk = func(cmd *cobra.Command) {
		seen++
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.Contains(cmd.Short, "\n") || strings.HasSuffix(cmd.Short, ".") || cmd.Long == "" || cmd.Long == cmd.Short {
			t.Errorf("%s: the summary is %q, the paragraph %q", path, cmd.Short, cmd.Long)
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: the examples are\n%s", path, cmd.Example)
		}
		var help bytes.Buffer
		if code := run(append(strings.Fields(path)[1:], "--help"), strings.NewReader(""), &help, &help); code != console.ExitDone || !strings.HasPrefix(help.String(), cmd.Short+"\n\n"+cmd.Long+"\n\nUsage:\n") {
			t.Errorf("%s --help is\n%s", path, &help)
		}
		for line := range strings.SplitSeq(help.String(), "\n") {
			if len(line) > 110 {
				t.Errorf("%s: a line of %d characters: %s", path, len(line), line)
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			placeholder, usage := pflag.UnquoteUsage(f)
			if slices.Contains([]string{"string", "strings", "int", "uint", "many", "long"}, placeholder) || strings.HasSuffix(usage, ".") || strings.Contains(usage, "`") {
				t.Errorf("%s --%s %s: %s", path, f.Name, placeholder, usage)
			}
		})
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	a := &session.Session{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	walk(root(a))
	if seen < 25 {
		t.Errorf("there are only %d commands", seen)
	}
}
