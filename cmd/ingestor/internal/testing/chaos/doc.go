// Package chaos has tests only. They run a whole fleet, which is several daemons, PostgreSQL,
// Redis and a simulated upstream, while everything around the daemons fails: processes are
// killed and stopped, servers restart, links break, and a disk is full.
//
// `make chaos` runs [TestChaos] for five minutes and prints the faults and what came of them.
// `make acceptance` prints the other figures of a fleet. The faults follow a seed.
package chaos
