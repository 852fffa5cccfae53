package quota_test

import (
	"errors"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

func TestBrokenBookIsBadInput(t *testing.T) {
	_, err := book.Parse("costs.yaml", []byte("revision: none"), nil)
	if !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("%v does not match quota.ErrBadInput", err)
	}
}
