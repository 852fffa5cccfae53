package console

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Known returns an error for an unknown command.
func Known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return Usage("there is no command %q; did you mean %s?", args[0], strings.Join(like, " or "))
	}
	return Usage("there is no command %q\nTo list the commands: %s --help", args[0], cmd.CommandPath())
}

// NoArgs returns an error if there are arguments. It is cobra.NoArgs with our exit code.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("%s takes no arguments, but got %q\nFor help: %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// Takes returns an error if there are fewer or more arguments than it names.
func Takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usage("%s takes %s\nFor help: %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// Closers closes what was opened, in reverse order.
type Closers []func() error

// Add adds one to be closed before all others.
func (c *Closers) Add(f func() error) { *c = append(*c, f) }

// Close closes all, and joins their errors.
func (c *Closers) Close() error {
	var all error
	for i := len(*c) - 1; i >= 0; i-- {
		all = errors.Join(all, (*c)[i]())
	}
	if all != nil {
		return fmt.Errorf("close: %w", all)
	}
	return nil
}
