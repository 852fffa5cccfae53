// Package jobs has the commands that run jobs, plan them, and show what they fetched.
package jobs
