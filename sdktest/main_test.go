package sdktest

import (
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

func TestMain(m *testing.M) {
	childtest.Main(m, map[string]childtest.Task{"slots": callInSlots, "models": callModel})
}
