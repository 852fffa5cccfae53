package youtubesim

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Effect is what a [Fault] does.
type Effect string

// Effects in place of an answer, or on its way.
const (
	Answer   Effect = "answer"    // the fault's Status, with an error of that kind
	Refuse   Effect = "refuse"    // the fault's Refusal; costs nothing
	Reset    Effect = "reset"     // the connection is reset instead of the answer
	Stall    Effect = "stall"     // the answer comes after Delay; without one, never
	HalfBody Effect = "half-body" // half of the answer, then the connection is reset
	Redirect Effect = "redirect"  // to Location
)

// Effects in what the answer says. They are for the videos in IDs, or for all.
const (
	NoChart   Effect = "no-chart"   // the chart is missing: Status 404, or 400 as documented
	Vanish    Effect = "vanish"     // videos are left out without a word
	HideLikes Effect = "hide-likes" // no likeCount
	Premiere  Effect = "premiere"   // still to come, without a duration
	Endless   Effect = "endless"    // there is always one more page, from the beginning again
)

// Fault is something that goes wrong on demand. It is for the requests that match
// all of its first fields; of several faults that match a request, the first of
// the first kind counts and all of the second.
type Fault struct {
	Method  string                     // videos.list; empty is any
	Region  string                     // its regionCode; empty is any
	Project string                     // who calls; empty is any
	Match   func(r *http.Request) bool // whatever else; nil matches

	Skip  int // so many that match pass before
	Times int // and then it is for so many; zero is all

	Do       Effect
	Status   int           // of Answer and NoChart; zero is 503 and 404
	Refusal  Refusal       // of Refuse
	Delay    time.Duration // of Stall, by the machine's clock
	Location string        // of Redirect
	Header   http.Header   // added to the answer, such as Retry-After
	IDs      []string      // of videos
	Free     bool          // the upstream did not count the call; without it, it did
}

// faults are those in force, in order.
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

// of are the faults of a request: at most one in place of its answer, and all in
// what it says.
func (f *faults) of(r *http.Request, method, region, project string) (instead *Fault, within []Fault) {
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

// suffers reports whether an effect is in force for a video.
func suffers(within []Fault, e Effect, id string) bool {
	for i := range within {
		if within[i].Do == e && (len(within[i].IDs) == 0 || slices.Contains(within[i].IDs, id)) {
			return true
		}
	}
	return false
}

// broken answers in place of the method. It reports false if the answer is still
// to come, later or by half.
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

// backendError is what the upstream says when it is not well.
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

// reset breaks the connection off, so that the client sees a reset where the
// transport can do that.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, or no connection at all
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// half sends half of a body; net/http breaks off the connection of a handler that
// wrote less than it had promised.
func half(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
}
