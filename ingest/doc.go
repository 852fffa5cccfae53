// Package ingest runs scheduled jobs that fetch from a metered upstream.
package ingest
