package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// theKey is what must not be found anywhere. It has nothing that JSON, YAML or a URL
// would write in another way.
const theKey = "RECOGNISE0me0wherever0I0am"

// keyHeader is how the key travels.
const keyHeader = "X-Goog-Api-Key"

// echoes are upstreams that tell the key to whoever reads their answers.
var echoes = map[string]func(w http.ResponseWriter, key string){
	"nothing": nil,
	"as a bad request": func(w http.ResponseWriter, key string) {
		answer(w, http.StatusBadRequest, "badRequest", "nobody knows "+key)
	},
	"as a bad key": func(w http.ResponseWriter, key string) {
		answer(w, http.StatusBadRequest, "badRequest", "API key not valid. Please pass a valid API key: "+key)
	},
	"as a key that is shut out": func(w http.ResponseWriter, key string) {
		answer(w, http.StatusForbidden, "forbidden", "Requests from "+key+" are blocked")
	},
	"in the reason": func(w http.ResponseWriter, key string) {
		answer(w, http.StatusForbidden, key, key)
	},
	"as a quota that is gone": func(w http.ResponseWriter, key string) {
		answer(w, http.StatusForbidden, "quotaExceeded", "the quota of "+key+" is gone")
	},
	"as what is no JSON": func(w http.ResponseWriter, key string) {
		fmt.Fprintf(w, "<p>%s", key)
	},
	"as a redirect": func(w http.ResponseWriter, key string) {
		w.Header().Set("Location", "http://127.0.0.1:1/?key="+key)
		w.WriteHeader(http.StatusFound)
	},
	"as a failure": func(w http.ResponseWriter, key string) {
		answer(w, http.StatusInternalServerError, "backendError", "crashed at "+key)
	},
}

// answer writes an error as the upstream does.
func answer(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"code": %d, "message": %q, "errors": [{"message": %[2]q, "domain": "youtube", "reason": %q}]}}`, status, message, reason)
}

// TestTheKeyIsNowhere runs what there is and looks for the key in everything that was
// written: output, logs of both formats, ledger, catalog, metrics, traces.
func TestTheKeyIsNowhere(t *testing.T) {
	for name, echo := range echoes {
		for _, format := range []string{"json", "text"} {
			t.Run(name+", "+format, func(t *testing.T) {
				t.Parallel() // what fails is tried again after a while
				tryEverything(t, echo, format)
			})
		}
	}
}

// calling are commands that call the upstream, and others are those that do not.
var (
	calling = [][]string{
		{"run", "--once", "--job", "trending", "--region", "US", "--metrics-file", "ingestor.prom"},
		{"check", "--call"},
	}
	others = [][]string{
		{"check", "--output", "json"},
		{"config", "show"},
		{"config", "show", "--output", "json"},
		{"quota"},
		{"quota", "spend", "--by", "job,method"},
		{"quota", "adjust", "units", "1", "--reason", "tried"},
		{"costs", "show"},
		{"runs", "--work"},
		{"state", "show"},
		{"regions"},
		{"trending", "US"},
		{"search", "music"},
		{"doctor"},
	}
)

func tryEverything(t *testing.T, echo func(http.ResponseWriter, string), format string) {
	f := newFolder(t, 1000, "")
	var asked atomic.Int32
	sim := youtubesim.New(&youtubesim.Options{Seed: 1})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(keyHeader) == theKey {
			asked.Add(1)
		}
		if echo != nil {
			echo(w, r.Header.Get(keyHeader))
			return
		}
		sim.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.write("key", theKey+"\n")
	traced := newCollector(t)
	try := func(variable string, args []string) {
		cmd := f.program(t.Context(), append(slices.Clone(args), "--log-level", "debug", "--log-format", format)...)
		cmd.Dir = f.dir
		cmd.Env = append(cmd.Env, "INGESTOR_ENDPOINT="+server.URL, "OTEL_EXPORTER_OTLP_ENDPOINT="+traced.url, variable)
		if r := finish(t, cmd); strings.Contains(r.stdout+r.stderr, theKey) {
			t.Errorf("%s tells the key:\n%s%s", strings.Join(args, " "), r.stdout, r.stderr)
		}
	}
	for _, args := range calling {
		try("YOUTUBE_API_KEY=", args) // from the file
	}
	try("YOUTUBE_API_KEY=", []string{"runs", "--output", "json"})
	if echo == nil {
		for _, args := range append(slices.Clone(calling), others...) {
			try("YOUTUBE_API_KEY="+theKey, args)
		}
	}
	if asked.Load() == 0 {
		t.Error("the upstream was never asked with the key")
	}
	if n := len(traced.spans); n == 0 || strings.Contains(traced.heard.String(), theKey) {
		t.Errorf("of %d spans one tells the key", n)
	}
	for _, path := range f.holding(theKey) {
		if path != f.path("key") {
			t.Errorf("the key stands in %s", path)
		}
	}
}

// An upstream may send the key after its answer, when nobody asked. net/http then writes
// what came to Go's standard logger.
func TestTheKeyIsNotInUnsolicitedAnswers(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "HTTP/1.1 500 Sorry\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 \"%s\"\r\n", r.Header.Get(keyHeader))
			}))
			t.Cleanup(server.Close)
			f := newFolder(t, 1000, "")
			f.write("key", theKey+"\n")
			cmd := f.program(t.Context(), "run", "--once", "--job", "trending", "--region", "US", "--log-format", format)
			cmd.Dir = f.dir
			cmd.Env = append(cmd.Env, "INGESTOR_ENDPOINT="+server.URL)
			r := finish(t, cmd)
			if !strings.Contains(r.stderr, "Unsolicited response") || strings.Contains(r.stdout+r.stderr, theKey) {
				t.Errorf("the log tells the key, or not what came:\n%s", r.stderr)
			}
			if lines := strings.Split(strings.TrimSpace(r.stderr), "\n"); format == "json" && slices.ContainsFunc(lines, func(line string) bool { return line[0] != '{' && strings.Contains(line, "Unsolicited") }) {
				t.Errorf("not all lines are JSON:\n%s", r.stderr)
			}
		})
	}
}

// holding are the files of the folder that have a text in them.
func (f *folder) holding(text string) (paths []string) {
	f.t.Helper()
	err := filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all, err := os.ReadFile(path)
		if bytes.Contains(all, []byte(text)) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return paths
}
