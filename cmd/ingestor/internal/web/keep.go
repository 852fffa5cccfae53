package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/pages"
)

// These bound the memory of the answers that the server keeps, in bytes.
const (
	mostKept = 32 << 20
	mostEach = 4 << 20 // a chart of 200 videos takes 0.6 MB
)

// lasting is an answer that stays true until the catalog changes.
type lasting struct {
	value any
	until time.Time // it stops being true then, at the latest; zero never does
	since time.Time // when it was fetched, if it is of one time
}

// endBy says that the answer stops being true then, at the latest.
func (l *lasting) endBy(t time.Time) {
	if l.until.IsZero() || t.Before(l.until) {
		l.until = t
	}
}

// brief returns an answer whose figures change with the time.
func (s *Server) brief(value any) lasting {
	return lasting{value: value, until: s.o.Clock.Now().Add(s.o.Share)}
}

// turn has a request do something when it is its turn.
type turn func(r *http.Request, do func(context.Context) error) error

// atOnce is the turn of what needs not wait.
func atOnce(r *http.Request, do func(context.Context) error) error { return do(r.Context()) }

// keeping sends the answer that is kept for a request, or else the one that maker makes. A request
// waits for its own turn, and not for that of another client who asks for the same: that one may
// have much before it. Brief answers have figures that change with the time.
func (s *Server) keeping(brief bool, in turn, maker func(*http.Request) (*kept.Answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shelf, key, version := s.shelfOf(r, brief)
		a := shelf.Get(version, key)
		if a == nil {
			err := in(r, func(ctx context.Context) (err error) {
				a, err = shelf.Do(ctx, version, key, func(ctx context.Context) (*kept.Answer, error) { return maker(r.WithContext(ctx)) })
				return err
			})
			if kept.SendOther(w, err) {
				return
			}
			if err != nil {
				s.fail(w, r, err)
				return
			}
		}
		a.Send(w, r)
	})
}

// feed is api for answers that are made in turn and may be kept, because they depend on the address,
// the catalog and the time only. These routes know no tokens, so all clients get the same.
func (s *Server) feed(in turn, h answer, parameters ...string) http.Handler {
	return s.keeping(false, func(r *http.Request, do func(context.Context) error) error {
		if err := checkQuery(r, parameters); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.o.Timeouts.Query)
		defer cancel()
		return in(r.WithContext(ctx), do)
	}, func(r *http.Request) (*kept.Answer, error) {
		value, err := h(r)
		if err != nil {
			return nil, err
		}
		return answerOf(value)
	})
}

// sharing keeps the answers of a page whose figures change with the time. If something could not
// be read, the page is not whole, and not kept.
func (s *Server) sharing(in turn, page http.HandlerFunc) http.Handler {
	return s.keeping(true, in, func(r *http.Request) (*kept.Answer, error) {
		until := s.o.Clock.Now().Add(s.o.Share)
		ctx, whole := pages.Whole(r.Context())
		a, err := kept.Capture(page, r.WithContext(ctx))
		if err == nil && whole() {
			a.Until = until
		}
		return a, err
	})
}

// versioned is a catalog that tells cheaply whether it changed: see [catalog.Catalog.Version].
// Answers of another one are not kept, unless they are brief: see package pgcatalog.
type versioned interface {
	Version(ctx context.Context) (int64, error)
}

// shelfOf returns where the answer to a request is kept; nil keeps it nowhere. It reads the version of
// the catalog, so call it before anything else is read.
func (s *Server) shelfOf(r *http.Request, brief bool) (in *kept.Store, key string, version kept.Version) {
	src := s.current()
	if brief {
		s.facts.Try(r.Context(), &src.Sources)
	}
	in, key, version[0] = src.kept, r.URL.EscapedPath()+"?"+r.URL.RawQuery, s.acted.Load()
	c, is := src.Catalog.(versioned)
	if is {
		var err error
		if version[1], err = c.Version(r.Context()); err != nil {
			return nil, key, version // to read the catalog will say what is wrong
		}
	} else if !brief {
		return nil, key, version
	}
	return in, key, version
}

func encode(value any) ([]byte, error) {
	body := bytes.NewBuffer(make([]byte, 0, 1<<10))
	e := json.NewEncoder(body)
	e.SetEscapeHTML(false) // it is sent as JSON, and nosniff
	err := e.Encode(value)
	return body.Bytes(), err
}

// answerOf returns a value as an answer in JSON to a GET request. Clients must ask each time,
// because a cache of theirs does not learn that a video was deleted. It is sent only if it
// changed.
//
// Only the ETag tells whether an answer changed. Last-Modified cannot: a video that was
// deleted leaves no time behind.
func answerOf(value any) (*kept.Answer, error) {
	header := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-cache"}}
	var until time.Time
	if l, ok := value.(lasting); ok {
		if value, until = l.value, l.until; until.IsZero() {
			until = never
		}
		if !l.since.IsZero() {
			header.Set("Last-Modified", l.since.UTC().Format(http.TimeFormat))
		}
	}
	body, err := encode(value)
	if err != nil {
		return nil, err
	}
	a := kept.New(header, body)
	a.Until = until
	return a, nil
}

// never is when an answer ends that only the catalog changes.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// reply sends a value as JSON. It encodes the value first, so that an error leaves no
// half-sent answer.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, value any) {
	if v, ok := value.(*problem.Verdict); ok {
		s.tellLeft(w.Header(), v)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		a, err := answerOf(value)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		a.Send(w, r)
		return
	}
	body, err := encode(value)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // who asked may have gone
}
