// Package setup has the commands that write, show and check the configuration.
package setup
