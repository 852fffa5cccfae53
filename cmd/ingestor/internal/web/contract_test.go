//go:build contract

package web_test

import (
	"bufio"
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// With the tag contract, the tests of OpenAPI ask through prism, which compares each answer
// with the document. To run them: make test-openapi.

// checked counts the answers that prism has compared.
var checked atomic.Int64

func init() {
	through, heard = throughProxy, violations
}

// throughProxy starts prism in front of a server, and returns its address.
func throughProxy(r *rig, address string) string {
	r.Helper()
	tool := tool("prism/node_modules/.bin/prism")
	l, err := (&net.ListenConfig{}).Listen(r.Context(), "tcp", "127.0.0.1:0")
	r.Must(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	r.Must(err)
	r.Must(l.Close())
	cmd := exec.Command(tool, "proxy", "--host", "127.0.0.1", "--port", port, "--multiprocess=false", "openapi.json", address) //nolint:noctx // the cleanup ends it
	out, err := cmd.StdoutPipe()
	r.Must(err)
	r.Must(cmd.Start())
	r.Cleanup(func() {
		r.Logf("prism has compared %d answers with openapi.json", checked.Load())
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Prism is listening") {
			go func() {
				for lines.Scan() {
				}
			}()
			return "http://127.0.0.1:" + port
		}
	}
	r.Fatal("prism does not start")
	return ""
}

// tool returns the path of a program that .ci/openapi has fetched.
func tool(path string) string {
	path, err := filepath.Abs("../../../../.ci/bin/" + path)
	if err != nil {
		panic(err)
	}
	return path
}

// violations fails if prism says that an answer is not as the document has it. Requests that
// are not are the tests' intent.
func violations(r *rig, a answer) {
	r.Helper()
	checked.Add(1)
	text := a.Header.Get("Sl-Violations")
	if text == "" {
		return
	}
	var all []struct {
		Location []string
		Message  string
	}
	r.Must(json.Unmarshal([]byte(text), &all))
	for _, v := range all {
		if len(v.Location) == 0 || v.Location[0] != "request" {
			r.Errorf("%s %s: %s: %s at %s", a.Request.Method, a.Request.URL, a.Status, v.Message, strings.Join(v.Location, "."))
		}
	}
}
