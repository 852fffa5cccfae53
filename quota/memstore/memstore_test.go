package memstore_test

import (
	"testing"

	"github.com/headroom-quota/headroom/quota/memstore"
)

func TestBuilds(t *testing.T) { memstore.New(nil) }
