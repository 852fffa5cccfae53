package ledger

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/draft"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota/book"
)

func draftCommand(a *session.Session) *cobra.Command {
	var kinds, hosts []string
	var out string
	var overwrite bool
	cmd := console.Command("draft [--from KIND FILE]...", nil, func(_ *cobra.Command, files []string) error {
		d := draft.New()
		sources := map[string]func(string, []byte) error{"har": d.HAR, "log": d.Log, "openapi": d.OpenAPI, "api-commons": d.Commons}
		switch {
		case len(kinds) == 0 && len(hosts) == 0 && len(files) == 0:
			return console.Usage("nothing to draft from\nName a source: ingestor costs draft --from har FILE")
		case len(kinds) != len(files):
			return console.Usage("each --from needs a kind and a file, as in --from har calls.har; there are %d kinds and %d files", len(kinds), len(files))
		}
		for _, host := range hosts {
			if err := d.Host(host); err != nil {
				return console.Usage("--host %s %w", host, err)
			}
		}
		for i, file := range files {
			read := sources[kinds[i]]
			if read == nil {
				return console.Usage("--from %s is not known; it is one of har, log, openapi and api-commons", kinds[i])
			}
			text, err := readDraftSource(a, file)
			if err != nil {
				return err
			}
			name := filepath.Base(file)
			if file == "-" {
				name = "standard input"
			}
			d.Folder = filepath.Dir(file)
			if err := read(name, text); err != nil {
				return console.Usage("%s %w", file, err)
			}
		}
		text, notes := d.Book()
		if !strings.Contains(text, "hosts: ") {
			return console.Usage("no source names a host with an API\nName it: --host api.example.com")
		}
		if _, err := book.Parse("the draft", []byte(text), nil); err != nil {
			return fmt.Errorf("the draft is no valid price book, which is a defect of this program: %w", err)
		}
		if err := writeDraft(a, out, text, overwrite); err != nil {
			return err
		}
		for _, note := range notes {
			fmt.Fprintln(a.Stderr, note)
		}
		return nil
	})
	cmd.Flags().StringArrayVar(&kinds, "from", nil, "`kind` of the next FILE: har, log, openapi or api-commons")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "`host` of the API, if no source names it")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write to, instead of the standard output")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace the file if it exists")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"har", "log", "openapi", "api-commons"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// mostSource is how many bytes of a source are read.
const mostSource = 1 << 30

func readDraftSource(a *session.Session, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(a.Stdin, mostSource))
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, console.Usage("%w", err)
	case info.Size() > mostSource:
		return nil, console.Usage("%s is longer than 1 GiB; a draft needs a few hundred calls", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, console.Usage("%w", err)
	}
	return text, nil
}

func writeDraft(a *session.Session, out, text string, overwrite bool) error {
	if out == "" {
		_, err := io.WriteString(a.Stdout, text)
		return err
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if overwrite {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(out, how, 0o644) //nolint:gosec // a price book is no secret
	if errors.Is(err, os.ErrExist) {
		return console.Usage("%s exists\nTo replace it: --overwrite", shell.Quote(out))
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write the draft: %w", err)
	}
	return nil
}
