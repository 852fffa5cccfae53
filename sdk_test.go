//go:build sdk

package headroom_test

// The discovery document is read from the SDK's module (see headroom_test.go);
// this keeps it in go.mod without building it for the tests of this package.
import _ "google.golang.org/api/youtube/v3"
