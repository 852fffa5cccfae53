package pages

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
)

// act is an action of a person on a page. To add one, add it to acts; it needs no route.
type act struct {
	title  string
	of     string  // what joins the title and the target
	means  string  // what it does, in a sentence
	inputs []input // beside those that the link has set
	target func(url.Values) string
	// command returns the command that does the same.
	command func(url.Values) []string
	do      func(ctx context.Context, src *view.Sources, v url.Values, who string) error
}

type input struct {
	Name, Label, Type, Hint, Value string
	Required                       bool
}

var (
	reasonInput = input{Name: "reason", Label: "Reason, for other people", Type: "text", Required: true}
	keyInput    = input{Name: "key", Label: "Client, by its key", Type: "text", Required: true}
)

// acts are the actions, by the last part of their paths.
var acts = map[string]*act{
	"adjust": {
		title: "Adjust", means: "Adds units to the usage of the pool, or takes units off, for every program that shares the ledger",
		inputs: []input{{Name: "units", Label: "Units, such as 250 or -40", Type: "text", Required: true}, reasonInput},
		target: poolOf,
		command: func(v url.Values) []string {
			return []string{"quota", "adjust", v.Get("pool"), orName(v, "units"), "--reason", orName(v, "reason")}
		},
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			pool, err := quota.ParsePool(v.Get("pool"))
			if err != nil {
				return err
			}
			units, err := strconv.ParseInt(strings.TrimSpace(v.Get("units")), 10, 64)
			if err != nil {
				return quota.BadInput("units must be a whole number, as 250 or -40")
			}
			_, err = src.Ledger.Admin().Adjust(ctx, pool, units, v.Get("reason")+" (by "+who+")")
			return err
		},
	},
	"block": {
		title: "Block", means: "Stops every program that shares the ledger from using the pool, until the block ends",
		inputs: []input{{Name: "for", Label: "For", Type: "text", Hint: "Such as 2h. Empty blocks until the next reset.", Value: "2h"}, reasonInput},
		target: poolOf,
		command: func(v url.Values) []string {
			args := []string{"quota", "block", v.Get("pool")}
			if v.Get("for") != "" {
				args = append(args, "--for", v.Get("for"))
			}
			return append(args, "--reason", orName(v, "reason"))
		},
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			pool, err := quota.ParsePool(v.Get("pool"))
			if err != nil {
				return err
			}
			reason := quota.ByHand(v.Get("reason") + " (by " + who + ")")
			if v.Get("for") == "" {
				return src.Ledger.BlockUntilReset(ctx, pool, reason)
			}
			d, err := view.ParseSpan(v.Get("for"))
			if err != nil {
				return quota.BadInput("%s", err)
			}
			return src.Ledger.BlockFor(ctx, pool, d, reason)
		},
	},
	"unblock": {
		title: "Unblock", means: "Lifts the block of the pool, for every program that shares the ledger",
		target:  poolOf,
		command: func(v url.Values) []string { return []string{"quota", "unblock", v.Get("pool")} },
		do: func(ctx context.Context, src *view.Sources, v url.Values, _ string) error {
			pool, err := quota.ParsePool(v.Get("pool"))
			if err != nil {
				return err
			}
			return src.Ledger.Admin().Unblock(ctx, pool)
		},
	},
	"reset": {
		title: "Reset", means: "Forgets how far the work has got. Its next run starts from the beginning. Fetched data is kept",
		target: func(v url.Values) string { return strings.TrimSpace(v.Get("job") + " " + v.Get("work")) },
		command: func(v url.Values) []string {
			args := []string{"state", "reset", v.Get("job")}
			if v.Get("work") != "" {
				args = append(args, v.Get("work"))
			}
			return args
		},
		do: reset,
	},
	"limit": {
		title: "Set a limit", of: " of", means: "Sets the limit of one client, in place of the price book's, for every program that shares the ledger. What the client has used stays used",
		inputs: []input{
			keyInput,
			{Name: "quota", Label: "Quota, such as 6000", Type: "text", Required: true},
			reasonInput,
		},
		target: familyOf,
		command: func(v url.Values) []string { // a key may be a secret of the client
			return []string{"limits", "set", v.Get("family"), "KEY", orName(v, "quota"), "--reason", orName(v, "reason")}
		},
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			units, err := strconv.ParseInt(v.Get("quota"), 10, 64)
			if err != nil || units < 1 {
				return quota.BadInput("the quota must be a whole number above 0, as 6000")
			}
			return setLimit(ctx, src, v, who, units)
		},
	},
	"unlimit": {
		title: "Remove a limit", of: " of", means: "Removes the limit of one client. Then the price book's holds again, for every program that shares the ledger",
		inputs: []input{keyInput, reasonInput},
		target: familyOf,
		command: func(v url.Values) []string {
			return []string{"limits", "rm", v.Get("family"), "KEY", "--reason", orName(v, "reason")}
		},
		do: func(ctx context.Context, src *view.Sources, v url.Values, who string) error {
			return setLimit(ctx, src, v, who, 0)
		},
	},
}

// setLimit sets the limit of a client; 0 removes it. The ledger keeps the key, and who did it.
func setLimit(ctx context.Context, src *view.Sources, v url.Values, who string, units int64) error {
	_, err := src.Ledger.Admin().SetLimit(ctx, quota.KeyLimit{Family: v.Get("family"), Key: v.Get("key"), Quota: units, By: who, Reason: v.Get("reason")})
	return err
}

// reset forgets how far a job has got, or one unit of its work.
func reset(ctx context.Context, src *view.Sources, v url.Values, _ string) error {
	job, work := v.Get("job"), v.Get("work")
	all, err := src.Catalog.Cursors(ctx, job)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(c catalog.Cursor) bool { return job == "" || work != "" && c.Work != work })
	if len(all) == 0 {
		return quota.BadInput("there is no such work")
	}
	for _, c := range all {
		if err := src.Catalog.Reset(ctx, job, c.Work); err != nil {
			return err
		}
	}
	return nil
}

func familyOf(v url.Values) string { return v.Get("family") }

func poolOf(v url.Values) string { return v.Get("pool") }

// orName returns a value, or its name in capitals if it is not set.
func orName(v url.Values, name string) string {
	if text := v.Get(name); text != "" {
		return text
	}
	return strings.ToUpper(name)
}

// quoted writes a command as a shell reads it.
func quoted(args []string) string {
	text := "ingestor"
	for _, a := range args {
		text += " " + shell.Quote(a)
	}
	return text
}
