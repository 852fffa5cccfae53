package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
)

// complete completes a flag with names from the settings.
func (a *app) complete(names func(*settings) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		s, err := a.settings(cmd.Flags())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(s), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFirst completes the first argument with names from the settings.
func (a *app) completeFirst(names func(*settings) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.complete(names)(cmd, args, text)
	}
}

// jobNames returns the names of the enabled jobs.
func jobNames(s *settings) []string {
	return namesOf(s, func(ingest.Kind) bool { return true })
}

// searchNames returns the names of the jobs that a backfill can take.
func searchNames(s *settings) []string { return namesOf(s, ingest.Kind.Dated) }

func namesOf(s *settings, has func(ingest.Kind) bool) (names []string) {
	for _, j := range s.List() {
		if has(j.Kind) {
			names = append(names, j.Name)
		}
	}
	return names
}

func regionNames(s *settings) []string {
	regions := slices.Clone(s.Regions)
	for _, j := range s.List() {
		regions = append(regions, j.Regions...)
	}
	slices.Sort(regions)
	return slices.Compact(regions)
}

func classNames(s *settings) []string {
	if u := s.book.Upstreams[metered]; u != nil {
		return slices.Sorted(maps.Keys(u.Classes))
	}
	return nil
}

func methodNames(s *settings) (names []string) {
	for _, u := range s.book.Upstreams {
		names = slices.AppendSeq(names, maps.Keys(u.Methods))
	}
	slices.Sort(names)
	return names
}
