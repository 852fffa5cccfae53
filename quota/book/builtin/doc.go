// Package builtin holds the built-in price books of other upstreams, as files of YAML, and
// their tests. Package headroom embeds and loads them.
package builtin
