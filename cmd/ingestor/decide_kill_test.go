package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// ask asks with the token, of a server that may not be there any more.
func (s *served) ask(body string) (said string, err error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url.String()+"/v1/reserve", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+theToken)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", errors.New(res.Status)
	}
	return string(text), nil
}

// TestKilledServer kills one of two servers while eight reserve at it, and asks the other
// again for what was not answered: each id is charged once.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	servers := twoServers(t, 1_000_000)
	var all sync.WaitGroup
	var answered atomic.Int64
	var lost sync.Map
	for k := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				body := fmt.Sprintf(`{"pool": "units", "id": "%d-%d"}`, k, i)
				if _, err := servers[0].ask(body); err != nil {
					lost.Store(body, nil)
					return
				}
				if answered.Add(1) == 200 {
					_ = servers[0].cmd.Process.Kill()
				}
			}
		})
	}
	all.Wait()
	again, repeats := int64(0), 0
	lost.Range(func(body, _ any) bool {
		said, err := servers[1].ask(body.(string))
		if err != nil {
			t.Error(err)
		}
		again++
		if strings.Contains(said, `"repeat":true`) {
			repeats++
		}
		return true
	})
	t.Logf("%d were answered, %d asked again, of which %d had been charged", answered.Load(), again, repeats)
	said, err := servers[1].ask(`{"pool": "units", "id": "last"}`)
	var verdict struct{ Used int64 }
	if err == nil {
		err = json.Unmarshal([]byte(said), &verdict)
	}
	if want := answered.Load() + again + 1; err != nil || verdict.Used != want {
		t.Errorf("%d units are used, want %d (%v)", verdict.Used, want, err)
	}
	<-servers[0].read
	_ = servers[0].cmd.Wait() // it was killed
	servers[1].stop()
}
