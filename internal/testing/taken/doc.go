// Package taken holds only tests: programs outside the tree take its modules as they would from
// a proxy, without a network.
package taken
