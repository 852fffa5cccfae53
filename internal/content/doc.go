// Package content reads the numbers and texts that a price book names in a request or an
// answer, while the message passes by.
//
// A [Reading] is given the body in pieces, keeps only what was asked for, and needs a few
// KiB whatever the length of the body. It reads JSON, JSON that comes one value after
// another, server-sent events, and all of these in gzip.
package content
