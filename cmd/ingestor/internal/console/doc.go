// Package console has what every command of the program writes and returns: tables and
// sentences for people, exit codes, and checks of arguments.
package console
