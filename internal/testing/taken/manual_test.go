//go:build manual

package taken

import (
	"flag"
	"testing"
)

var goproxy = flag.String("goproxy", "", "folder to write the archives of all modules to")

// TestGoproxy writes what users of the library download, for GOPROXY=file://FOLDER. `make release`
// runs it, for the version that the modules require of each other. A file that git does not have
// may be a key, so it is left out.
func TestGoproxy(t *testing.T) {
	if *goproxy == "" {
		t.Skip("write a folder: -goproxy DIR")
	}
	layOut(t, *goproxy, "--cached")
}
