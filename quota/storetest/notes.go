package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/headroom-quota/headroom/quota"
)

// A note is written as a whole, by one of those who have seen the same version, and outlasts a restart.
func testNotes(t *testing.T, h Harness) {
	s := h.Open(t)
	if _, can := s.(quota.NoteKeeper); !can { // the stores' own packages say at compile time that they can
		t.Skip("this store keeps no notes")
	}
	swap := func(s quota.Store, name string, version int64, text string) (quota.Note, bool) {
		t.Helper()
		n, done, err := s.(quota.NoteKeeper).SwapNote(t.Context(), name, version, text)
		if err != nil {
			t.Fatal(err)
		}
		if n.Now.IsZero() {
			t.Errorf("the note %q has no time", name)
		}
		return n, done
	}
	want := func(what string, s quota.Store, name, text string, version int64) {
		t.Helper()
		if n, done := swap(s, name, -1, ""); n.Text != text || n.Version != version || done {
			t.Errorf("%s: the note %q is %.40q, version %d (%t), want %.40q, version %d", what, name, n.Text, n.Version, done, text, version)
		}
	}
	const name = `youtube@Müller & Söhne/units:a "b" %1`
	long := strings.Repeat("ü\n", quota.MaxNote/3)
	want("at first", s, name, "", 0)
	if n, done := swap(s, name, 7, "too late"); done || n.Version != 0 {
		t.Errorf("a note that is not there was written as of version 7: %+v", n)
	}
	if n, done := swap(s, name, 0, "one"); !done || n.Text != "one" || n.Version != 1 {
		t.Errorf("the first text was not written: %+v %t", n, done)
	}
	if n, done := swap(s, name, 0, "another"); done || n.Text != "one" || n.Version != 1 {
		t.Errorf("a second one who saw nothing has written: %+v %t", n, done)
	}
	if _, done := swap(s, name, 1, long); !done {
		t.Error("the next text was not written")
	}
	want("after two texts", s, name, long, 2)
	want("beside it", s, name+"2", "", 0)
	if h.Share != nil {
		other := h.Share(t, s)
		want("in another process", other, name, long, 2)
		if _, done := swap(other, name, 2, ""); !done {
			t.Error("another process could not write")
		}
		want("after another process has forgotten it", s, name, "", 3)
	} else {
		swap(s, name, 2, "")
	}

	const writers, each = 4, 10
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				for version := int64(0); ; {
					n, done, err := s.(quota.NoteKeeper).SwapNote(context.WithoutCancel(t.Context()), "count", version, strings.Repeat("x", int(version)+1))
					if err != nil {
						t.Error(err)
						return
					}
					if done {
						break
					}
					version = n.Version
				}
			}
		})
	}
	all.Wait()
	want("after many writers", s, "count", strings.Repeat("x", writers*each), writers*each)
	if h.Reopen != nil {
		s = h.Reopen(t, s)
		want("after a restart", s, "count", strings.Repeat("x", writers*each), writers*each)
		want("after a restart", s, name, "", 3)
	}
	for _, bad := range []struct {
		name, text string
		version    int64
	}{{"", "", 0}, {"a\x00b", "", 0}, {"a", strings.Repeat("x", quota.MaxNote+1), 0}, {"a", "", -2}, {"a", "\xff", 0}, {"a", "\x00", 0}} {
		if _, _, err := s.(quota.NoteKeeper).SwapNote(t.Context(), bad.name, bad.version, bad.text); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("the note %q of version %d: %v, want bad input", bad.name, bad.version, err)
		}
	}
}
