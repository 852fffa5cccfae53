// Package sdktest has no code, only tests: real SDKs, unmodified, call upstreams that
// enforce their limits themselves (package server), through a ledger and without one.
//
//	go test ./... -run Figures -v
//
// prints one table of figures: what was reached, and what is to be reached. With
// HEADROOM_SOAK=1 the runs are as long as the figures say; without it they are shorter.
//
// It is a module of its own, so that users of the library do not get the SDKs.
package sdktest
