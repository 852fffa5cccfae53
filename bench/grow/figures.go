package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/headroom-quota/headroom/internal/testing/team"
)

// A figure is one line of figures.csv, as it was measured.
type figure struct {
	store, series string
	reference     bool // of the block's reference: one pool with a window of a day
	pools         int
	callers       int // 0: this figure has none
	round         int // 0: it was measured once
	measure       string
	value         float64
}

// These are the measures.
const (
	perSecond    = "reservations a second"
	bytesAll     = "bytes of all pools"
	bytesCall    = "bytes of a reservation"
	bytesProcess = "bytes in the process"
	secondsFill  = "seconds to fill"
)

var header = []string{"store", "series", "reference", "pools", "callers", "round", "measure", "value"}

func (f *figure) row() []string {
	return []string{
		f.store, f.series, strconv.FormatBool(f.reference), strconv.Itoa(f.pools), strconv.Itoa(f.callers), strconv.Itoa(f.round),
		f.measure, strconv.FormatFloat(f.value, 'f', max(0, min(2, 3-digits(f.value))), 64),
	}
}

// digits is how many digits a figure has before its point.
func digits(v float64) int { return len(strconv.FormatFloat(v, 'f', 0, 64)) }

func writeFigures(path string, all []figure) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	_ = w.Write(header) // Error returns what failed
	for i := range all {
		_ = w.Write(all[i].row())
	}
	w.Flush()
	return errors.Join(w.Error(), f.Close())
}

func readFigures(path string) (all []figure, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, row := range rows {
		if i == 0 && slices.Equal(row, header) {
			continue
		}
		f := figure{store: row[0], series: row[1], reference: row[2] == "true", measure: row[6]}
		var errs [4]error
		f.pools, errs[0] = strconv.Atoi(row[3])
		f.callers, errs[1] = strconv.Atoi(row[4])
		f.round, errs[2] = strconv.Atoi(row[5])
		f.value, errs[3] = strconv.ParseFloat(row[7], 64)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// merge puts the figures of a block in the place of earlier ones. The order is that of the
// stores and series, so that a file changes only where its figures do.
func merge(all, block []figure) []figure {
	all = slices.DeleteFunc(slices.Clone(all), func(f figure) bool { return f.store == block[0].store && f.series == block[0].series })
	all = append(all, block...)
	place := func(f figure) int {
		return slices.Index(storeNames, f.store)*len(allSeries) + slices.Index(seriesNames(), f.series)
	}
	slices.SortStableFunc(all, func(a, b figure) int { return place(a) - place(b) })
	return all
}

// lookup is the median of the figures of a store, a series, pools and callers; 0 if there
// are none.
func lookup(all []figure, store, series string, pools, callers int, measure string) float64 {
	return team.Median(values(all, false, store, series, pools, callers, measure))
}

// ratio is the median of the ratios of reservations a second to those of the reference in
// the same round.
func ratio(all []figure, store, series string, pools, callers int) float64 {
	mine := values(all, false, store, series, pools, callers, perSecond)
	ref := values(all, true, store, series, 1, callers, perSecond)
	if len(mine) != len(ref) {
		return 0
	}
	for i := range mine {
		mine[i] /= ref[i]
	}
	return team.Median(mine)
}

func values(all []figure, reference bool, store, series string, pools, callers int, measure string) (found []float64) {
	for i := range all {
		f := &all[i]
		if f.store == store && f.series == series && f.reference == reference && f.pools == pools && f.callers == callers && f.measure == measure {
			found = append(found, f.value)
		}
	}
	return found
}
