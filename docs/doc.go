// Package docs holds only tests: the guides show what runs, and name and link what exists.
package docs
