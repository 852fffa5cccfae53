// Package ways holds only a test, which makes calls for `make ways` to count the functions that
// one of them passes.
package ways
