package meter_test

import (
	"errors"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

func TestKeysThatNobodyCouldUse(t *testing.T) {
	l := newLedger(t, prices, nil)
	key := meter.Key("k")
	for name, test := range map[string]struct {
		keys map[string]meter.KeySource
		want string
	}{
		"another upstream":           {map[string]meter.KeySource{"api": key, "apo": key}, `meter: Keys has "apo", but the price book has no such upstream; it has api, other`},
		"another upstream's account": {map[string]meter.KeySource{"apo@staging": key}, `meter: Keys has "apo@staging", but the price book has no such upstream; it has api, other`},
		"no source":                  {map[string]meter.KeySource{"api": nil}, `meter: Keys has "api" without a source; leave it out, or write meter.Key(...)`},
	} {
		m, err := meter.New(l, &meter.Options{Keys: test.keys})
		if m != nil || !errors.Is(err, quota.ErrBadInput) || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if _, err := meter.New(l, &meter.Options{Keys: map[string]meter.KeySource{"api": key, "api@staging": key}}); err != nil {
		t.Error(err)
	}
}
