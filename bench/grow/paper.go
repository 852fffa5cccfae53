package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The calculation on paper is for these numbers.
const (
	wantClients = 1_000_000
	wantRate    = 100_000 // reservations a second
	fraction    = 0.6     // of what a server can do: the rest is for peaks
	partitions  = 64      // of a family, at most
	hotPools    = 1_000
	processes   = 8
	blockLife   = 2 * time.Second
	blockCost   = 3 // scripts of Redis for a block: two to take it, the second for a new bucket, and one to settle it
	blockTime   = 9 // and their time, as a multiple of that of a reservation in Redis
)

// paper works out what a million clients and 100,000 reservations a second need.
func paper(all []figure) string {
	const callers = 64
	rate := func(store, series string, pools int) float64 {
		return lookup(all, store, series, pools, callers, perSecond)
	}
	most := sizes[len(sizes)-1]
	clients, pools := rate("Redis", "clients", most), rate("Redis", shownSeries, most)
	client, pool := bytesOf(all, "Redis", "clients"), bytesOf(all, "Redis", shownSeries)
	receipt := lookup(all, "Redis", shownSeries, 1, 0, bytesCall)
	sqlite, rowBytes := rate("SQLite", shownSeries, manyPools), lookup(all, "SQLite", shownSeries, 1, 0, bytesCall)
	if clients == 0 || pools == 0 || sqlite == 0 {
		return ""
	}
	servers := math.Ceil(wantRate / (clients * fraction))
	for onFullest(servers)/partitions*wantRate > clients*fraction {
		servers++
	}
	fullest := onFullest(servers)
	load := fullest / partitions * wantRate
	alone := onFullest(partitions)
	forPools := math.Ceil(wantRate / (pools * fraction))
	each := float64(wantRate) / (hotPools * processes) * blockLife.Seconds()
	blocks := wantRate / each

	var b strings.Builder
	b.WriteString("\n| # | what | arithmetic | result |\n| ---: | --- | --- | ---: |\n")
	n := 0
	row := func(what, result, format string, args ...any) {
		n++
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", n, what, fmt.Sprintf(format, args...), result)
	}
	row("Redis, bytes of 1,000,000 clients", size(wantClients*client), "1,000,000 x %s B", thousands(client))
	row("the same as pools with a window of 24 h", size(wantClients*pool), "1,000,000 x %s B", thousands(pool))
	row("Redis servers for the clients", thousands(servers), "100,000 / (%s a second x %.1f)", thousands(clients), fraction)
	row("partitions on the fullest of them", thousands(fullest), "64, by the slots of their tags on %.0f masters", servers)
	row("its reservations a second, of "+thousands(clients), thousands(load), "%.0f / 64 x 100,000", fullest)
	row(fmt.Sprintf("most that 64 masters carry; the fullest has %.0f partitions", alone), thousands(partitions/alone*clients*fraction), "64 / %.0f x %s x %.1f", alone, thousands(clients), fraction)
	row("Redis servers for pools with receipts and spend", thousands(forPools), "100,000 / (%s a second x %.1f)", thousands(pools), fraction)
	row("their receipts, which live for an hour", size(wantRate*3600*receipt), "100,000 x 3,600 s x %s B", thousands(receipt))
	row("with leased blocks, reservations of a block", thousands(each), "100,000 / (%s pools x %d processes) x %.0f s", thousands(hotPools), processes, blockLife.Seconds())
	row("blocks a second", thousands(blocks), "100,000 / %s", thousands(each))
	row("scripts a second for them", thousands(blocks*blockCost), "%s x %d", thousands(blocks), blockCost)
	row("Redis servers for them, by their time", thousands(math.Ceil(blocks*blockTime/(pools*fraction))), "%s x %d / (%s a second x %.1f)", thousands(blocks), blockTime, thousands(pools), fraction)
	row("their receipts, and those of their rests", size(2*blocks*3600*receipt), "2 x %s x 3,600 s x %s B", thousands(blocks), thousands(receipt))
	row("SQLite, the most on one machine", thousands(sqlite*fraction), "%s a second x %.1f", thousands(sqlite), fraction)
	row("its rows of a day at that rate", size(sqlite*fraction*86_400*rowBytes), "%s x 86,400 s x %s B", thousands(sqlite*fraction), thousands(rowBytes))
	return b.String()
}

// onFullest returns how many partitions of a family are on the fullest of some masters, each
// of which has an equal range of slots.
func onFullest(masters float64) float64 {
	on := make([]int, int(masters))
	for i := range partitions {
		slot := crc16(fmt.Sprintf("client/default/%d/%d", i, partitions)) % slots // the hash tag of redisstore
		on[int(slot)*len(on)/slots]++
	}
	return float64(slices.Max(on))
}

// slots is how many slots a Redis Cluster has.
const slots = 16_384

// crc16 decides about the slot of a hash tag.
func crc16(tag string) (sum uint16) {
	for i := range len(tag) {
		sum ^= uint16(tag[i]) << 8
		for range 8 {
			top := sum >> 15
			sum = sum<<1 ^ top*0x1021
		}
	}
	return sum
}
