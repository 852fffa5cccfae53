// Package settings reads the configuration of the program: flags, variables, ingestor.yaml
// and defaults, each value with the place that it comes from.
package settings
