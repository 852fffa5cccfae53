package meter

import (
	"io"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
)

// A body that was read ahead lets go of its head when it is closed.
func TestAClosedUploadKeepsNothing(t *testing.T) {
	u := newUpload([]byte("head"), io.NopCloser(strings.NewReader(" and rest")), false)
	one := make([]byte, 1)
	if _, err := u.Read(one); err != nil || one[0] != 'h' {
		t.Fatal(string(one), err)
	}
	if err := u.Close(); err != nil || u.head.Load() != nil {
		t.Errorf("the head is kept: %v", err)
	}
}

// A line for the price book names a pool, also if the upstream has none yet.
func TestALineForAnUpstreamWithoutPools(t *testing.T) {
	if pool := commonPool(&book.Upstream{}); pool != "units" {
		t.Error(pool)
	}
}
