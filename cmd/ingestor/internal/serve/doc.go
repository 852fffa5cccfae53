// Package serve has the commands that serve and meter the calls of other programs.
package serve
