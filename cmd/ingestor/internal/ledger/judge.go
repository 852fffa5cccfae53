package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota"
)

type judgeFlags struct {
	yes, own           bool
	limit, svg         string
	headers            []string
	refused            []int
	parallel, maxCalls int
	maxTime            time.Duration
}

func JudgeCommand(a *session.Session) *cobra.Command {
	var f judgeFlags
	cmd := a.Command("judge URL", console.Takes(1, 1, "the URL of a service"), func(cmd *cobra.Command, args []string) error {
		r, err := f.rate()
		if err != nil {
			return err
		}
		clock := bounded{Clock: cmp.Or[quota.Clock](a.Clock, quota.SystemClock{})}
		clock.end = clock.Now().Add(f.maxTime)
		t, err := newTarget(args[0], &f, clock)
		if err != nil {
			return err
		}
		if !f.yes {
			return console.Usage("this would send up to %s requests to %s within %s\nTo send them: ingestor judge URL --yes", figure(f.maxCalls), t.url, console.Length(f.maxTime))
		}
		j := &judging{target: t, parallel: f.parallel, rate: claimedRate{header: "--limit", Rate: r}}
		err = j.run(cmd.Context(), a, &f)
		spent, until := errors.AsType[*spentError](err)
		switch {
		case cmd.Context().Err() != nil:
			return &console.Exit{Code: console.ExitDeferred, Err: errors.New("interrupted; nothing is proved")}
		case until && j.rate.Per > 0: // judged by what it let through until then
		case err != nil:
			return err
		}
		v := j.view(clock.Now())
		if err := v.compared().print(a, f.svg, v, v.show); err != nil {
			return err
		}
		return v.broken(spent)
	})
	cmd.Flags().BoolVar(&f.yes, "yes", false, "send the requests")
	cmd.Flags().BoolVar(&f.own, "i-own-this", false, "judge a service on another machine, which is yours")
	cmd.Flags().StringVar(&f.limit, "limit", "", "limit to judge, as a `rate` such as 100/1m (default what the headers name)")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "`header` of each request, such as \"Authorization: Bearer $TOKEN\"; repeatable")
	cmd.Flags().IntSliceVar(&f.refused, "refused", []int{429, 503}, "`statuses` of refusals")
	cmd.Flags().IntVar(&f.parallel, "parallel", 8, "`number` of requests under way at a time in a full burst")
	cmd.Flags().IntVar(&f.maxCalls, "max-calls", 5000, "largest `number` of requests to send")
	cmd.Flags().DurationVar(&f.maxTime, "max-time", 30*time.Minute, "longest `duration` to send them")
	cmd.Flags().StringVar(&f.svg, "svg", "", "also draw a picture into this `file`")
	return cmd
}

// rate reads --limit. Without it, the rate is zero.
func (f *judgeFlags) rate() (r boundary.Rate, err error) {
	switch {
	case f.parallel < 1 || f.parallel > 256:
		return r, console.Usage("--parallel must be 1 to 256, not %d", f.parallel)
	case f.maxCalls < 1 || f.maxTime <= 0:
		return r, console.Usage("--max-calls and --max-time must be positive")
	case f.limit == "":
		return r, nil
	}
	n, per, _ := strings.Cut(f.limit, "/")
	if per != "" && strings.Contains("smh", per) {
		per = "1" + per
	}
	r.Limit, err = strconv.Atoi(n)
	if err == nil {
		r.Per, err = time.ParseDuration(per)
	}
	if err != nil || r.Limit < 1 || r.Limit > 100_000 || r.Per < 100*time.Millisecond {
		return r, console.Usage("--limit must be a number and a duration of at least 100ms, such as 100/1m or 10/1s, not %q", f.limit)
	}
	return r, nil
}

// judging is a limiter on its timelines, one after the other.
type judging struct {
	*target
	parallel int
	rate     claimedRate
	rounds   []*round
	obeyed   obeyed
}

// round is a timeline with what was answered on it.
type round struct {
	id, name string
	trial    boundary.Trial
	from, to int // of the answers
}

func (j *judging) run(ctx context.Context, a *session.Session, f *judgeFlags) error {
	if _, _, err := j.call(ctx); err != nil {
		return err
	}
	if j.rate.Per == 0 {
		var ok bool
		if j.rate, ok = j.answers[0].learned(); !ok {
			said := "the headers name no limit"
			if rates := j.answers[0].rates; len(rates) > 0 {
				said = fmt.Sprintf("%s names a limit of %s, but no header names its window", rates[0].header, figure(rates[0].Limit))
			}
			return console.Usage("%s\nName the limit with its window: ingestor judge URL --yes --limit 100/1m", said)
		}
	}
	r := j.rate.Rate
	calls, long := 20*r.Limit+600, 27*r.Per+10*time.Second // with the pauses; Retry-After is in whole seconds
	if calls > f.maxCalls || j.clock.Now().Add(long).After(j.clock.end) {
		return console.Usage("to judge %s takes up to %s requests and %s\nTo allow that: ingestor judge URL --yes --max-calls %d --max-time %s\nOr set the limiter to a lower limit and a shorter window for the test",
			inAny(r), figure(calls), console.Length(long), calls, long)
	}
	if a.Output != "json" {
		fmt.Fprintf(a.Stderr, "Sending bursts to %s for up to %s.\n", j.url, console.Length(long))
	}
	greed := boundary.Greed(r, r.Per/20)
	found, err := j.round(ctx, "greed", "whatever comes free", greed)
	if err != nil {
		return err
	}
	if _, err := j.round(ctx, "clock", "the clock's boundary", boundary.Bursts(r)); err != nil {
		return err
	}
	if at, ok := found.refill(r); ok {
		t := boundary.Greed(r, min(r.Per/5+r.Per/time.Duration(r.Limit), r.Per/2)) // an estimate frees its first unit that late
		t.Since, t.About = at, "the same from just before the time at which the first call of a window passed"
		if _, err := j.round(ctx, "found", "a boundary found", t); err != nil {
			return err
		}
	}
	first := boundary.Bursts(r)
	first.Name, first.About = "first", "one call, then the same around the end of the window that it began"
	first.Steps = append([]boundary.Step{{After: -r.Per, Ask: 1}}, first.Steps...)
	if _, err := j.round(ctx, "first", "a first call's window", first); err != nil {
		return err
	}
	patient := first // for limiters that count refused calls, too
	patient.Name, patient.About = "patient", "the same, but the last burst is nearly a window after the other"
	patient.Steps = slices.Clone(first.Steps)
	patient.Steps[2].After = r.Per * 85 / 100
	if _, err := j.round(ctx, "patient", "a patient client", patient); err != nil {
		return err
	}
	return j.obey(ctx)
}

// round runs one timeline, after two windows without calls: estimates remember as long. The
// boundary is the one that the timeline names, the one of the clock, or the one that the first
// call of the round sets.
func (j *judging) round(ctx context.Context, id, name string, t boundary.Timeline) (*round, error) {
	if err := j.clock.Sleep(ctx, 2*j.rate.Per); err != nil {
		return nil, err
	}
	if id == "first" || id == "patient" || id == "obey" {
		t.Since = j.clock.Now().Add(time.Millisecond - j.rate.Per) // so that it begins at once
	}
	r := &round{id: id, name: name, from: len(j.answers), trial: boundary.Trial{Timeline: t, Limiter: j.call, Parallel: j.parallel}}
	j.rounds = append(j.rounds, r)
	err := boundary.Run(ctx, j.clock, j.rate.Rate, []*boundary.Trial{&r.trial})
	r.to = len(j.answers)
	return r, err
}

// refill returns when the first call passed after the burst. It is a boundary, or soon after
// one. A boundary of the clock, or of a window that the burst itself began, is not reported:
// other rounds are about those.
func (r *round) refill(rate boundary.Rate) (time.Time, bool) {
	for i, given := range r.trial.Given {
		if after := r.trial.Timeline.Steps[i].After; i > 0 && given > 0 {
			phase := after % rate.Per
			return r.trial.Boundary.Add(after), phase > rate.Per/20 && phase < rate.Per*94/100
		}
	}
	return time.Time{}, false
}

// obeyed is what came of calls at the times that refusals named.
type obeyed struct {
	by           string // the header; "": refusals name no time
	passed       int
	refusedFor   time.Duration // longer than named, at worst
	refused      int
	tooFar       time.Duration // a time that is too far away to wait for it
	neverRefused bool
}

// obey uses up the limit, and sends the next call at the time that the refusal names. It does
// so twice.
func (j *judging) obey(ctx context.Context) error {
	per, o := j.rate.Per, &j.obeyed
	for range 2 {
		told := boundary.Timeline{Name: "obey", About: "a full burst, then one call when the refusal says so"}
		told.Steps = []boundary.Step{{Ask: j.rate.Limit}, {Ask: j.rate.Limit + 1, Give: true}}
		r, err := j.round(ctx, "obey", "calls as told", told)
		if err != nil {
			return err
		}
		last := j.answers[len(j.answers)-1]
		switch wait := last.named.Sub(j.clock.Now()); {
		case last.passed:
			o.neverRefused = true
			return nil
		case last.namedBy == "":
			return nil
		case wait > 2*per+time.Second:
			o.by, o.tooFar = last.namedBy, wait
			return nil
		default:
			o.by = last.namedBy
			if err := j.clock.Sleep(ctx, wait); err != nil {
				return err
			}
		}
		named, step := j.clock.Now(), per/20
		for i := range 41 { // two windows
			_, passed, err := j.call(ctx)
			r.to = len(j.answers)
			if err != nil {
				return err
			}
			if passed && i == 0 {
				o.passed++
			}
			if passed {
				break
			}
			if i == 0 {
				o.refused++
			}
			if err := j.clock.Sleep(ctx, step); err != nil {
				return err
			}
			o.refusedFor = max(o.refusedFor, j.clock.Now().Sub(named))
		}
	}
	return nil
}

// sooner returns how long before the named time a refused call would have passed, at most.
func (j *judging) sooner() (most time.Duration) {
	for i, no := range j.answers {
		if no.passed || no.namedBy == "" {
			continue
		}
		next := slices.IndexFunc(j.answers[i:], func(a answer) bool { return a.passed && a.begun > no.ended })
		if next >= 0 {
			most = max(most, no.named.Sub(j.answers[i+next].done))
		}
	}
	return most
}

// misled returns the most that an answer said was left before the next call was refused, and
// the header. It looks only at calls with no other call under way.
func (j *judging) misled() (left int, by string) {
	for i := range len(j.answers) - 1 {
		a, next := &j.answers[i], &j.answers[i+1]
		alone := a.begun == 2*i+1 && a.ended == 2*i+2 && next.begun == 2*i+3 && next.ended == 2*i+4
		if alone && !next.passed && a.remaining > left {
			left, by = a.remaining, a.remainingBy
		}
	}
	return left, by
}
