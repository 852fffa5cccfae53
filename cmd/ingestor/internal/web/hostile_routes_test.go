package web_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
)

// TestEachRouteTakesHostileRequests makes requests for each route by a seed: 10,000 with
// HEADROOM_SOAK=1. None causes an internal error or a panic, each answer has the headers that
// protect browsers, and no token or key is in an answer or in the log.
func TestEachRouteTakesHostileRequests(t *testing.T) {
	each, seed := full(100, 10_000), uint64(1)
	var log bytes.Buffer
	r := newRigOf(t, &web.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, &viewtest.Options{Prices: unguarded})
	r.Run("trending")
	r.FetchHostile()
	program, err := access.New("", theToken, access.Rights...)
	r.Must(err)
	anna, err := access.New("anna", annas, access.Operate)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{program, anna}}, r.Ledger.Book()))
	d, all := r.documented()
	documented, known := map[string]operation{}, map[string][]string{}
	for _, o := range all {
		documented[o.String()] = o
		for _, p := range o.parameters("query") {
			known[o.path] = append(known[o.path], p["name"].(string))
		}
	}
	mux, statuses := r.server.Mux(), map[int]int{}
	for i, pattern := range append(r.server.Patterns(), "GET /no/such/page") {
		m := &maker{rand.New(rand.NewPCG(seed, uint64(i))), known}
		method, path, _ := strings.Cut(pattern, " ")
		o, is := documented[pattern]
		for made := 0; made < each; {
			raw := m.request(method, path)
			req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
			if err != nil {
				continue // net/http answers it
			}
			made++
			req = req.WithContext(t.Context())
			req.RemoteAddr = "203.0.113.7:4711"
			w := httptest.NewRecorder()
			r.server.ServeHTTP(w, req)
			statuses[w.Code]++
			fault := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s, seed %d, %.400q: %d, %s", pattern, seed, raw, w.Code, fmt.Sprintf(format, args...))
			}
			body := r.unzipped(w)
			if w.Code >= 500 {
				fault("%.300s", body)
			}
			for _, name := range []string{"X-Content-Type-Options", "Referrer-Policy", "Content-Security-Policy", "Cross-Origin-Resource-Policy"} {
				if w.Header().Get(name) == "" {
					fault("it has no %s", name)
				}
			}
			said := fmt.Sprint(w.Header()) + body + log.String()
			for _, secret := range []string{theToken, annas, wrongSecret, "AIza-not-a-key"} {
				if strings.Contains(said, secret) {
					fault("it tells %s:\n%s", secret, said)
				}
			}
			if w.Header().Get("X-Injected") != "" {
				fault("a text became a header")
			}
			kind := w.Header().Get("Content-Type")
			if strings.HasPrefix(kind, "text/html") && strings.Contains(body, script) {
				fault("a text became code")
			}
			if i := strings.IndexFunc(body, obeyed); i >= 0 {
				fault("it has the character %U: %.200q", []rune(body[i:])[0], body[max(i-100, 0):])
			}
			if strings.Contains(log.String(), "panic") {
				fault("the log has a panic:\n%s", &log)
			}
			log.Reset()
			if _, reached := mux.Handler(req); is && reached == pattern && w.Code/100 != 3 {
				for _, wrong := range d.undeclared(o, w) {
					fault("%s", wrong)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf(figure+"seed %d, %d hostile requests for each of %d routes: %v", seed, each, len(r.server.Patterns())+1, statuses)
	for _, status := range []int{200, 400, 401, 403, 404, 405, 413, 421, 422} {
		if statuses[status] == 0 {
			t.Errorf("no request got %d, so they are not varied enough: %v", status, statuses)
		}
	}
}

// TestPagesGiveBackPlainText: what browsers and terminals obey is left out of what a request
// says.
func TestPagesGiveBackPlainText(t *testing.T) {
	r := newActed(t)
	r.Run("trending")
	const bad = "%C2%9B31m%E2%80%AEx%7F"
	for _, path := range []string{
		"/search?q=" + bad, "/search?q=the&region=" + bad, "/regions/" + bad, "/regions/US?category=" + bad, "/act/block?pool=" + bad, "/act/adjust?pool=x&units=" + bad,
		"/act/reset?job=" + bad + "&work=" + bad, "/act/limit?family=" + bad, "//search?q=" + bad, "/history?pool=" + bad, "/api/v1/search?q=x&region=" + bad, "/api/v1/runs?" + bad + "=1",
	} {
		if a := r.ask("GET", path, "", "Accept", "text/html"); strings.ContainsFunc(a.body, obeyed) {
			t.Errorf("%s: %q", path, a.body)
		}
	}
}

// unzipped returns the body of an answer, and leaves it there, as it was before it was
// compressed.
func (r *rig) unzipped(w *httptest.ResponseRecorder) string {
	r.Helper()
	if w.Header().Get("Content-Encoding") != "gzip" || w.Body.Len() == 0 {
		return w.Body.String()
	}
	z, err := gzip.NewReader(w.Body)
	r.Must(err)
	text, err := io.ReadAll(z)
	r.Must(err)
	w.Body = bytes.NewBuffer(text)
	return string(text)
}

// obeyed reports whether a browser or a terminal obeys a character.
func obeyed(c rune) bool {
	return unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c) || c >= '\u202a' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069'
}

// undeclared returns how an answer is not as the document has it.
func (d document) undeclared(o operation, w *httptest.ResponseRecorder) []string {
	responses := o.is["responses"].(map[string]any)
	as, ok := responses[fmt.Sprint(w.Code)].(map[string]any)
	if !ok {
		as, ok = responses["default"].(map[string]any)
	}
	if !ok {
		return []string{"the document does not have the status"}
	}
	kind := w.Header().Get("Content-Type")
	content, _ := d.resolved(as)["content"].(map[string]any)
	media, ok := content[kind].(map[string]any)
	switch {
	case content == nil && w.Body.Len() == 0:
		return nil
	case !ok:
		return []string{"the document does not have an answer that is " + kind}
	}
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		return []string{err.Error()}
	}
	return d.check(media["schema"].(map[string]any), v, "answer")
}
