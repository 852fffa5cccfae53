package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// post makes one call and returns the answer.
func post(s *LLM, t Task, most int64, stream bool) *httptest.ResponseRecorder {
	path := [...]string{"/v1/chat/completions", "/v1/messages"}[s.o.Form]
	body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"stream":%t,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":%q}]}`, most, stream, t)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
				panic(p)
			}
		}()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	}()
	return w
}

// What counts, and when: a limit of 1,000 and calls that ask for 400, use 100 and take
// 10 s. The input is left out, because only the output has a limit.
func TestLLMCounts(t *testing.T) {
	for _, tt := range []struct {
		charges Charging
		atEnd   bool
		granted int   // of 20 at once
		during  int64 // that count while the calls last
		after   int64
	}{
		{Used, false, 10, 1000, 1000},
		{Used, true, 20, 0, 2000},
		{Requested, false, 2, 800, 800},
		{Adjusted, false, 2, 800, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := NewLLM(LLMOptions{Form: Anthropic, Output: Limit{Kind: Sliding, Quota: 1000, Per: time.Minute}, Charges: tt.charges, AtEnd: tt.atEnd})
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() { post(s, Task{Output: 100, Latency: 10 * time.Second}, 400, false) })
			}
			time.Sleep(5 * time.Second)
			during := s.UsedNow("output_tokens")
			wg.Wait()
			c := s.Counts()
			if c.Granted != tt.granted || c.Refused != 20-tt.granted || during != tt.during || s.UsedNow("output_tokens") != tt.after || c.Charged["output_tokens"] != tt.after {
				t.Errorf("%s, at the end %t: %d used during, %d after, %+v", tt.charges, tt.atEnd, during, s.UsedNow("output_tokens"), c)
			}
			if want := max(0, tt.after-1000); c.Overrun["output_tokens"] != want {
				t.Errorf("%s: overrun %d, want %d", tt.charges, c.Overrun["output_tokens"], want)
			}
			left := map[bool]time.Duration{false: 50 * time.Second, true: time.Minute}[tt.atEnd]
			if time.Sleep(left - 1); s.UsedNow("output_tokens") != tt.after {
				t.Errorf("%s, at the end %t: units left the window early", tt.charges, tt.atEnd)
			}
			if time.Sleep(time.Nanosecond); s.UsedNow("output_tokens") != 0 {
				t.Errorf("%s, at the end %t: %d units count for too long", tt.charges, tt.atEnd, s.UsedNow("output_tokens"))
			}
		})
	}
}

func TestLLMTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limit{Kind: Fixed, Quota: 3000, Per: time.Minute}
		a := NewLLM(LLMOptions{Form: Anthropic, Requests: Limit{Kind: Fixed, Quota: 2, Per: time.Minute}, Output: l, Rounded: true})
		time.Sleep(10 * time.Second)
		h := post(a, Task{Output: 700}, 4096, false).Header()
		if h.Get("Anthropic-Ratelimit-Requests-Remaining") != "1" || h.Get("Anthropic-Ratelimit-Output-Tokens-Remaining") != "2000" ||
			h.Get("Anthropic-Ratelimit-Output-Tokens-Limit") != "3000" || h.Get("Anthropic-Ratelimit-Requests-Reset") != "2000-01-01T00:01:01Z" {
			t.Errorf("%v", h)
		}
		post(a, Task{}, 1, false)
		w := post(a, Task{}, 1, false)
		if w.Code != 429 || w.Header().Get("Retry-After") != "50" || !strings.Contains(w.Body.String(), `"type":"rate_limit_error"`) {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}

		o := NewLLM(LLMOptions{Form: OpenAI, Tokens: Limit{Kind: Bucket, Quota: 6000, Per: time.Minute}})
		h = post(o, Task{Output: 494}, 600, false).Header()
		if h.Get("X-Ratelimit-Remaining-Tokens") != "5500" || h.Get("X-Ratelimit-Reset-Tokens") != "5s" {
			t.Errorf("%v", h)
		}
		o.Lower("tokens", 100)
		w = post(o, Task{Output: 50}, 600, false)
		if w.Code != 429 || !strings.Contains(w.Body.String(), `"code":"rate_limit_exceeded"`) || o.Counts().Refused != 1 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// Each form says in its stream what the call cost, as documented.
func TestLLMStreams(t *testing.T) {
	for _, form := range []Form{OpenAI, Anthropic} {
		synctest.Test(t, func(t *testing.T) {
			s := NewLLM(LLMOptions{Form: form})
			begun := time.Now()
			w := post(s, Task{Output: 40, Latency: 3 * time.Second}, 600, true)
			if time.Since(begun) != 3*time.Second {
				t.Errorf("it took %s", time.Since(begun))
			}
			var in, out int64
			for lines := bufio.NewScanner(w.Body); lines.Scan(); {
				data, ok := strings.CutPrefix(lines.Text(), "data: ")
				if !ok || data == "[DONE]" {
					continue
				}
				var e struct {
					Message struct {
						Usage struct {
							Input int64 `json:"input_tokens"`
						}
					}
					Usage struct {
						Input  int64 `json:"prompt_tokens"`
						Output int64 `json:"completion_tokens"`
						Out    int64 `json:"output_tokens"`
					}
				}
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				in, out = max(in, e.Message.Usage.Input, e.Usage.Input), max(out, e.Usage.Output, e.Usage.Out)
			}
			if out != 40 || in+out != s.Counts().Used {
				t.Errorf("form %d: %d in, %d out, %+v", form, in, out, s.Counts())
			}
		})
	}
}

// A fault is charged, unless it is a status 500.
func TestLLMFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewLLM(LLMOptions{Form: OpenAI, Tokens: Limit{Kind: Fixed, Quota: 1e6, Per: time.Hour}})
		for _, tt := range []struct {
			fault Fault
			says  string
		}{
			{"", `"total_tokens":13}`},
			{Huge, `"total_tokens":1e308`},
			{Negative, `"total_tokens":-5`},
			{Text, `"total_tokens":"many"`},
			{Nested, strings.Repeat("[", 1000)},
			{Cut, `"choices":`},
			{Lost, ""},
			{Mute, `"finish_reason":"stop"}]}`},
			{Error, ""},
		} {
			before := s.Counts()
			w := post(s, Task{Output: 8, Fault: tt.fault}, 100, false)
			after := s.Counts()
			charged := after.Charged["tokens"] > before.Charged["tokens"]
			if !strings.Contains(w.Body.String(), tt.says) || charged == (tt.fault == Error) || after.InFlight != 0 {
				t.Errorf("%s: %.300s, charged %t", tt.fault, w.Body, charged)
			}
		}
	})
}
