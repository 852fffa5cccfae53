// Package sdk holds only tests: YouTube's own SDK, metered as README.md and docs/library.md
// show it, and the built-in price books compared with the methods of the SDK.
package sdk
