package session

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Complete completes a flag with names from the settings.
func (a *Session) Complete(names func(*settings.Settings) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		s, err := a.Settings(cmd.Flags())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(s), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFirst completes the first argument with names from the settings.
func (a *Session) CompleteFirst(names func(*settings.Settings) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.Complete(names)(cmd, args, text)
	}
}

// JobNames returns the names of the enabled jobs.
func JobNames(s *settings.Settings) []string {
	return namesOf(s, func(ingest.Kind) bool { return true })
}

// SearchNames returns the names of the jobs that a backfill can take.
func SearchNames(s *settings.Settings) []string { return namesOf(s, ingest.Kind.Dated) }

func namesOf(s *settings.Settings, has func(ingest.Kind) bool) (names []string) {
	for _, j := range s.List() {
		if has(j.Kind) {
			names = append(names, j.Name)
		}
	}
	return names
}

// RegionNames returns the regions of the settings and of all jobs.
func RegionNames(s *settings.Settings) []string {
	regions := slices.Clone(s.Regions)
	for _, j := range s.List() {
		regions = append(regions, j.Regions...)
	}
	slices.Sort(regions)
	return slices.Compact(regions)
}

// ClassNames returns the classes of the upstream of the jobs.
func ClassNames(s *settings.Settings) []string {
	if u := s.Book.Upstreams[settings.Metered]; u != nil {
		return slices.Sorted(maps.Keys(u.Classes))
	}
	return nil
}

// MethodNames returns the methods of all upstreams.
func MethodNames(s *settings.Settings) (names []string) {
	for _, u := range s.Book.Upstreams {
		names = slices.AppendSeq(names, maps.Keys(u.Methods))
	}
	slices.Sort(names)
	return names
}

// FindMethod finds a method by its name.
func FindMethod(b *quota.Book, name string) (*book.Upstream, *book.Method, error) {
	var like, all []string
	for _, upstream := range slices.Sorted(maps.Keys(b.Upstreams)) {
		u := b.Upstreams[upstream]
		if m := u.Methods[name]; m != nil {
			return u, m, nil
		}
		for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
			all = append(all, m)
			if strings.Contains(strings.ToLower(m), strings.ToLower(strings.TrimSuffix(name, ".list"))) {
				like = append(like, m)
			}
		}
	}
	const few, suggestions = 12, 3
	switch {
	case len(like) > 0:
		slices.SortStableFunc(like, func(a, b string) int { return strictyaml.Distance(name, a) - strictyaml.Distance(name, b) })
		like = like[:min(suggestions, len(like))]
		return nil, nil, console.Usage("the price book has no method %q; did you mean %s?", name, strings.Join(like, ", "))
	case len(all) > 0 && len(all) <= few:
		return nil, nil, console.Usage("the price book has no method and no upstream %q; its methods are %s", name, strings.Join(all, ", "))
	}
	return nil, nil, console.Usage("the price book has no method and no upstream %q\nTo list all methods: ingestor costs show", name)
}

// Answers says what the answers of an upstream tell about pools: of all, or of those
// that a method charges.
func Answers(u *book.Upstream, m *book.Method) []string {
	all := []string{}
	for i := range u.Feedback {
		f := &u.Feedback[i]
		if m != nil && f.Pool.From == nil {
			if _, charged := m.Charges[f.Pool.Name]; !charged {
				continue
			}
		}
		all = append(all, f.String())
	}
	return all
}
