package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

// helpPage is README.md of this folder: people read it on the web, and it is the help of the commands.
//
//go:embed README.md
var helpPage string

// describe gives each command its help. A section of the manual has the path of the command as its
// heading, a summary, paragraphs, and examples in a listing of sh. Other listings are indented.
func describe(root *cobra.Command) {
	_, reload, _ := strings.Cut(helpPage, "\n## Reload\n\n")
	whole := strings.NewReplacer("SIGHUP reloads the price book and the configuration: see [Reload](#reload).", strings.TrimSpace(reload))
	for section := range strings.SplitSeq(helpPage, "\n### ") {
		path, text, _ := strings.Cut(section, "\n\n")
		text, _, _ = strings.Cut(text, "\n## ") // of the next group
		summary, text, _ := strings.Cut(text, "\n\n")
		long, examples, shown := strings.Cut(text, "\n\n```sh\n")
		cmd, _, err := root.Find(strings.Fields(path)[1:])
		switch {
		case !shown: // the introduction
			continue
		case err != nil || cmd.CommandPath() != path:
			panic("README.md describes " + path + ", which is no command")
		}
		cmd.Short, cmd.Long, cmd.Example = strings.TrimSuffix(summary, "."), whole.Replace(indented(long)), indented("```\n"+examples)
	}
}

// indented returns a text of Markdown with its listings indented, and without their fences.
func indented(text string) string {
	var lines []string
	indent := ""
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "```") {
			indent = "  "[len(indent):] // it begins or ends
			continue
		}
		if line != "" {
			line = indent + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
