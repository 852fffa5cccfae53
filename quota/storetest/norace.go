//go:build !race

package storetest

const slower = 1
