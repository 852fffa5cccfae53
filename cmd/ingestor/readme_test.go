package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README's table of commands is all of them.
func TestReadmeNamesEveryCommand(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Commands\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var named []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(cells[1], -1) {
				named = append(named, m[1])
			}
		}
	}
	root := (&app{}).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var there []string
	for _, c := range root.Commands() {
		there = append(there, c.Name())
	}
	slices.Sort(named)
	slices.Sort(there)
	if !slices.Equal(named, there) {
		t.Errorf("README.md names\n%q\nthe commands are\n%q", named, there)
	}
}
