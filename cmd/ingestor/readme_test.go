package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README shows what ingestor prove writes.
func TestReadmeShowsTheProof(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"prove"}, nil, &stdout, &stderr); code != exitDone {
		t.Fatalf("left with %d: %s", code, &stderr)
	}
	_, shown, found := strings.Cut(stdout.String(), "\n\nThe most")
	if !found || !strings.Contains(string(text), "```text\nThe most"+shown+"```\n") {
		t.Errorf("not in README.md:\n%s", &stdout)
	}
}

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

// The README's transcript is what the demo says, as far as it goes.
func TestReadmeShowsTheDemo(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(text), "go run ./cmd/ingestor demo\n\n```text\n")
	shown, _, there := strings.Cut(shown, "```")
	f := newFolder(t, 1, "")
	cmd := f.program(t.Context())
	cmd.Args, cmd.Env = []string{"ingestor", "demo"}, []string{"TMPDIR=" + f.dir}
	r := finish(t, cmd)
	folder := regexp.MustCompile(`/\S*/ingestor-demo-\d+`)
	if !there || !strings.HasPrefix(folder.ReplaceAllString(r.stdout, "DIR"), folder.ReplaceAllString(shown, "DIR")) {
		t.Errorf("README.md shows\n%s\nthe demo says\n%s", shown, r.stdout)
	}
}
