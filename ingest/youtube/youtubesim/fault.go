package youtubesim

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Effect is the effect of a [Fault].
type Effect string

// Effects that replace an answer or disturb its delivery.
const (
	Answer   Effect = "answer"    // the fault's Status, with an error of that kind
	Refuse   Effect = "refuse"    // the fault's Refusal; costs nothing
	Reset    Effect = "reset"     // the connection is reset instead of the answer
	Stall    Effect = "stall"     // the answer comes after Delay; without one, never
	HalfBody Effect = "half-body" // half of the answer, then the connection is reset
	Redirect Effect = "redirect"  // to Location
)

// Effects on the data of an answer: of the videos in IDs, or of all.
const (
	NoChart   Effect = "no-chart"   // the chart is missing: Status 404, or 400 as documented
	Vanish    Effect = "vanish"     // videos are missing, without an error
	HideLikes Effect = "hide-likes" // no likeCount
	Premiere  Effect = "premiere"   // upcoming, without a duration
	Endless   Effect = "endless"    // there is always one more page; pages repeat
)

// Fault is an injected fault. It applies to requests that match all of its first fields. If
// several faults match a request, the first one that replaces the answer applies, and all
// that change its data.
type Fault struct {
	Method  string                     // videos.list; empty is any
	Region  string                     // its regionCode; empty is any
	Project string                     // of the key; empty is any
	Match   func(r *http.Request) bool // any other condition; nil matches

	Skip  int // matching requests that pass first
	Times int // matching requests it applies to then; zero is all

	Do       Effect
	Status   int           // of Answer and NoChart; zero is 503 and 404
	Refusal  Refusal       // of Refuse
	Delay    time.Duration // of Stall, by the machine's clock
	Location string        // of Redirect
	Header   http.Header   // added to the answer, such as Retry-After
	IDs      []string      // of videos
	Free     bool          // whether the upstream does not charge the call
}

// faults holds the active faults, in order.
type faults struct {
	mu   sync.Mutex
	list []*injected
}

type injected struct {
	Fault
	seen int
}

func (f *faults) add(list []Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range list {
		f.list = append(f.list, &injected{Fault: one})
	}
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

// matching returns the faults of a request: at most one that replaces the answer, and all
// that change its data.
func (f *faults) matching(r *http.Request, method, region, project string) (instead *Fault, within []Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.list {
		if i.Method != "" && i.Method != method || i.Region != "" && i.Region != region || i.Project != "" && i.Project != project ||
			i.Match != nil && !i.Match(r) {
			continue
		}
		i.seen++
		if i.seen <= i.Skip || i.Times > 0 && i.seen > i.Skip+i.Times {
			continue
		}
		switch i.Do {
		case NoChart, Vanish, HideLikes, Premiere, Endless:
			within = append(within, i.Fault)
		default:
			if instead == nil {
				copied := i.Fault
				instead = &copied
			}
		}
	}
	return instead, within
}

// suffers reports whether an effect applies to a video.
func suffers(within []Fault, e Effect, id string) bool {
	for i := range within {
		if within[i].Do == e && (len(within[i].IDs) == 0 || slices.Contains(within[i].IDs, id)) {
			return true
		}
	}
	return false
}

// breaks reports whether the client does not get the answer of the method. A late answer is one.
func (f *Fault) breaks() bool { return f != nil && (f.Do != Stall || f.Delay == 0) }

// broken answers instead of the method. It returns false if the method still answers, late
// or by half.
func (f *Fault) broken(w http.ResponseWriter, r *http.Request, who refused, pretty bool) bool {
	for name, values := range f.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	switch f.Do {
	case Answer:
		backendError(f.Status).write(w, pretty)
	case Refuse:
		who.failure(f.Refusal).write(w, pretty)
	case Reset:
		reset(w)
	case Redirect:
		status := f.Status
		if status == 0 {
			status = http.StatusFound
		}
		w.Header().Set("Location", f.Location)
		w.WriteHeader(status)
	case Stall:
		if f.Delay == 0 {
			<-r.Context().Done()
			return true
		}
		wait := time.NewTimer(f.Delay)
		defer wait.Stop()
		select {
		case <-wait.C:
			return false
		case <-r.Context().Done():
			return true
		}
	default:
		return false
	}
	return true
}

// backendError returns the upstream's error for internal faults.
func backendError(code int) *failure {
	switch code {
	case 0, http.StatusServiceUnavailable:
		return failed(503, "youtube.api", "SERVICE_UNAVAILABLE", "The service is currently unavailable.").status("UNAVAILABLE")
	case http.StatusInternalServerError:
		return failed(500, "global", "backendError", "Internal error encountered.").status("INTERNAL")
	default:
		return failed(code, "global", "backendError", http.StatusText(code))
	}
}

// reset aborts the connection. The client sees a reset if the transport supports it.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, or no real connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// half sends half of a body. net/http aborts the connection of a handler that writes less
// than its Content-Length.
func half(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
}
