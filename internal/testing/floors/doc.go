// Package floors holds no code, only the test of the floors of the house: which
// package may import which, and what the tree must not contain.
package floors
