package open_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

const theKey = "a-key-of-the-example"

// TestMain runs the example as it is printed: in a folder of its own with a price book,
// and with the simulator at the upstream's address.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if childtest.Do(children) {
		return 0
	}
	childtest.AtOnce(6)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("key")+r.Header.Get("X-Goog-Api-Key") != theKey {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer upstream.Close()
	http.DefaultTransport = &http.Transport{DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "youtube.googleapis.com:443" {
			return nil, fmt.Errorf("%s is not the upstream", address)
		}
		return new(net.Dialer).DialContext(ctx, network, upstream.Listener.Addr().String())
	}}
	os.Setenv("YOUTUBE_API_KEY", theKey)
	dir, err := os.MkdirTemp("", "open-")
	if err == nil {
		defer os.RemoveAll(dir)
		// A test that names no folder for its state must not use that of the person who runs it.
		err = errors.Join(os.Chdir(dir), os.Setenv("XDG_STATE_HOME", dir), os.WriteFile("costs.yaml", []byte("extends: builtin\n"), 0o600))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
