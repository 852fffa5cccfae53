package draft

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// References of a document may lead to other files. Those to a server are not followed, and the draft says so.
func TestReferencesOfDocuments(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a server was asked") }))
	defer server.Close()
	d := New()
	d.Folder = t.TempDir()
	for name, text := range map[string]string{
		"answers.yaml": "Many: {description: too many, headers: {X-RateLimit-Reset: {schema: {type: integer}}}}",
		"orders.yaml":  "get: {operationId: listOrders, responses: {\"429\": {$ref: \"answers.yaml#/Many\"}}}",
	} {
		if err := os.WriteFile(filepath.Join(d.Folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.OpenAPI("api.yaml", []byte(`
openapi: 3.0.3
info: {title: Orders, version: 1}
servers: [{url: https://api.example.com}]
paths:
  /orders: {$ref: orders.yaml}
  /items: {get: {operationId: listItems, responses: {"200": {$ref: "`+server.URL+`/answers.yaml#/Fine"}}}}
  /users: {get: {operationId: listUsers, responses: {"429": {$ref: "answers.yaml#/Few"}}}}
`)); err != nil {
		t.Fatal(err)
	}
	text, notes := d.Book()
	for _, want := range []string{
		`"listOrders": {route: "GET /orders"`, `"listItems": {route: "GET /items"`, `"listUsers": {route: "GET /users"`,
		"GET /orders documents 429", "api.yaml documents the header X-RateLimit-Reset",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the draft lacks %s:\n%s", want, text)
		}
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "api.yaml: a part of it cannot be read: ") {
		t.Errorf("notes: %s", all)
	}
	d = New() // the library reads no path if one of them is in a file that is missing
	if err := d.OpenAPI("api.yaml", []byte(`{"openapi": "3.0.3", "servers": [{"url": "https://api.example.com"}], "paths": {"/a": {"$ref": "missing.yaml"},
		"/b": {"get": {"operationId": "listB", "responses": {"200": {}, "429": {}}}}}}`)); err != nil {
		t.Fatal(err)
	}
	text, notes = d.Book()
	if !strings.Contains(text, `"listB": {route: "GET /b"`) || !strings.Contains(text, "GET /b documents 429") || !strings.Contains(strings.Join(notes, "\n"), "api.yaml: a part of it cannot be read: ") {
		t.Errorf("without a path, the notes are %s, and the draft\n%s", notes, text)
	}
}

// Documents are read as they are found: with a number as a version, without answers, in a circle.
func TestOddDocuments(t *testing.T) {
	for name, text := range map[string]string{
		"numbers":        `{"openapi": "3.0.0", "info": {"version": 2}, "servers": [{"url": "https://api.example.com"}], "paths": {"/a": {"get": {"operationId": 5}}}}`,
		"circle":         `{"openapi": "3.1.0", "servers": [{"url": "https://api.example.com"}], "components": {"schemas": {"T": {"properties": {"t": {"$ref": "#/components/schemas/T"}}}}}, "paths": {"/a": {"get": {"responses": {"200": {"description": "t", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/T"}}}}}}}}}`,
		"needed circle":  `{"openapi": "3.1.0", "servers": [{"url": "https://api.example.com"}], "components": {"schemas": {"T": {"required": ["t"], "type": "object", "properties": {"t": {"$ref": "#/components/schemas/T"}}}}}, "paths": {"/a": {"get": {"responses": {"200": {"description": "t", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/T"}}}}}}}}}`,
		"circle of refs": `{"openapi": "3.1.0", "servers": [{"url": "https://api.example.com"}], "components": {"responses": {"A": {"$ref": "#/components/responses/B"}, "B": {"$ref": "#/components/responses/A"}}}, "paths": {"/a": {"get": {"responses": {"429": {"$ref": "#/components/responses/A"}}}}}}`,
		"swagger":        `{"swagger": "2.0", "host": "api.example.com", "basePath": "/", "paths": {"/a": {"get": {}}}}`,
		"a null":         `{"openapi": "3.0.0", "servers": [{"url": "https://api.example.com"}], "paths": {"/a": {"get": {"responses": {"429": null}}, "post": null}}}`,
	} {
		d := New()
		if err := d.OpenAPI(name, []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, _ := d.Book(); !strings.Contains(got, `route: "GET /a"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Documents whose references lead anywhere, also round in circles, end with a draft, or with an error that says so.
func TestReferencesInCircles(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		kinds := []string{"responses", "schemas", "securitySchemes", "headers"}
		ref := func() any {
			if r.IntN(4) == 0 {
				return map[string]any{"$ref": fmt.Sprintf("#/paths/~1p%d", r.IntN(4))}
			}
			return map[string]any{"$ref": fmt.Sprintf("#/components/%s/%c", kinds[r.IntN(4)], 'A'+r.IntN(4))}
		}
		components := map[string]any{}
		for _, kind := range kinds {
			of := map[string]any{}
			for i := range 4 {
				of[string(rune('A'+i))] = ref()
				if r.IntN(2) == 0 {
					of[string(rune('A'+i))] = map[string]any{"description": "x", "type": "object", "properties": map[string]any{"p": ref()}, "headers": map[string]any{"X-RateLimit-Limit": ref()}}
				}
			}
			components[kind] = of
		}
		paths := map[string]any{"/fine": map[string]any{"get": map[string]any{"operationId": "fine"}}}
		for i := range 4 {
			paths[fmt.Sprint("/p", i)] = ref()
			if r.IntN(2) == 0 {
				paths[fmt.Sprint("/p", i)] = map[string]any{"get": map[string]any{"responses": map[string]any{"429": ref(), "200": ref()}}}
			}
		}
		text, err := json.Marshal(map[string]any{"openapi": "3.1.0", "servers": []any{map[string]any{"url": "https://api.example.com"}}, "components": components, "paths": paths})
		if err != nil {
			t.Fatal(err)
		}
		d := New()
		if err := d.OpenAPI("api", text); err != nil {
			if !strings.Contains(err.Error(), "circular reference") {
				t.Errorf("seed %d: %v", seed, err)
			}
		} else if got, _ := d.Book(); !strings.Contains(got, `"fine": {route: "GET /fine"`) {
			t.Errorf("seed %d: %s\n%s", seed, text, got)
		}
	}
}
