package web

import (
	"context"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
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
	return lasting{value: value, until: s.clock.Now().Add(s.share)}
}

// feed is api for answers that may be kept, because they depend on the address, the catalog
// and the time only. These routes know no tokens, so all clients get the same.
func (s *Server) feed(h answer, parameters ...string) http.Handler {
	return s.feedIn(func(ctx context.Context, do func(context.Context) error) error { return do(ctx) }, h, parameters...)
}

// feedIn is feed for answers that are made in turn. A request waits for its own turn, and not
// for that of another client who asks for the same: that one may have much before it.
func (s *Server) feedIn(turn func(context.Context, func(context.Context) error) error, h answer, parameters ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := s.shelfOf(r, false)
		a := p.kept()
		if a != nil {
			a.Send(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.timeouts.Query)
		defer cancel()
		err := checkQuery(r, parameters)
		if err == nil {
			err = turn(ctx, func(ctx context.Context) (err error) {
				a, err = p.fill(ctx, func(ctx context.Context) (*kept.Answer, error) {
					value, err := h(r.WithContext(ctx))
					if err != nil {
						return nil, err
					}
					return answerOf(value)
				})
				return err
			})
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		a.Send(w, r)
	})
}

// keepPage sends a page whose figures change with the time. If something could not be read,
// the page is not whole, and not kept.
func (s *Server) keepPage(w http.ResponseWriter, r *http.Request, maker func(*http.Request) (a *kept.Answer, whole bool)) {
	a, err := s.shelfOf(r, true).fill(r.Context(), func(ctx context.Context) (*kept.Answer, error) {
		until := s.clock.Now().Add(s.share)
		a, whole := maker(r.WithContext(ctx))
		if whole {
			a.Until = until
		}
		return a, nil
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	a.Send(w, r)
}

// versioned is a catalog that tells cheaply whether it changed: see [catalog.Catalog.Version].
// Answers of another one are not kept, unless they are brief: see package pgcatalog.
type versioned interface {
	Version(ctx context.Context) (int64, error)
}

// shelf is where the answer to a request is kept; nil keeps it nowhere.
type shelf struct {
	in      *kept.Store
	version kept.Version
	key     string
}

// shelfOf returns the shelf of a request. It reads the version of the catalog, so call it
// before anything else is read.
func (s *Server) shelfOf(r *http.Request, brief bool) *shelf {
	src := s.current()
	if brief {
		_, _ = s.facts.Try(r.Context(), &src.Sources) // the page says what is wrong
	}
	p := &shelf{in: src.kept, version: kept.Version{s.acted.Load()}, key: r.URL.EscapedPath() + "?" + r.URL.RawQuery}
	c, is := src.Catalog.(versioned)
	if !is && !brief {
		return nil
	}
	if is {
		n, err := c.Version(r.Context())
		if err != nil {
			return nil // to read the catalog will say what is wrong
		}
		p.version[1] = n
	}
	return p
}

// kept returns the answer that is kept there, or nil.
func (p *shelf) kept() *kept.Answer {
	if p == nil {
		return nil
	}
	return p.in.Get(p.version, p.key)
}

// fill returns the answer that is kept there, or the one that maker returns.
func (p *shelf) fill(ctx context.Context, maker func(context.Context) (*kept.Answer, error)) (*kept.Answer, error) {
	if p == nil {
		return maker(ctx)
	}
	return p.in.Do(ctx, p.version, p.key, maker)
}
