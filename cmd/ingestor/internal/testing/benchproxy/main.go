// Proxy measures what ingestor proxy adds to calls over loopback, beside a bare
// [net/http/httputil.ReverseProxy] and beside no proxy at all.
//
//	go run ./proxy
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// sizes are how much is measured.
type sizes struct {
	runs, rate int
	length     time.Duration // of an open loop, for each contender
	turn       time.Duration // of one contender, before it is the next one's
	streams    int
	few, many  int // requests before the heap is looked at
	programs   int
	quota      int           // that they saturate
	per        time.Duration // in which they may use it
	windows    int           // for which they call
}

func main() {
	if is, err := child(os.Stdin, os.Stdout); is {
		exit(err)
	}
	s := sizes{turn: 250 * time.Millisecond, streams: 300, few: 20_000, many: 200_000, programs: 4, quota: 1000, per: 20 * time.Second}
	flag.IntVar(&s.runs, "runs", 5, "runs, of which the median counts")
	flag.IntVar(&s.rate, "rate", 1000, "calls a second of the open loop")
	flag.DurationVar(&s.length, "length", 5*time.Second, "length of a run, for each of the three")
	flag.IntVar(&s.windows, "windows", 3, "windows of 20s for which the programs saturate the proxy")
	only := flag.String("only", "", "measure one of: open-loop, streams, heap, recording, saturation")
	flag.Parse()
	exit(run(context.Background(), os.Stdout, s, *only))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-proxy:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, out io.Writer, s sizes, only string) error {
	for _, measure := range []struct {
		name string
		by   func(context.Context, io.Writer, sizes) error
	}{{"open-loop", openLoop}, {"streams", streams}, {"heap", heap}, {"recording", recordings}, {"saturation", saturate}} {
		if only != "" && only != measure.name {
			continue
		}
		if err := measure.by(ctx, out, s); err != nil {
			return fmt.Errorf("%s: %w", measure.name, err)
		}
	}
	return nil
}
