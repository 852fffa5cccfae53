package web

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPI describes the routes under /api/ and /v1/.
//
//go:embed openapi.json
var openAPI json.RawMessage

// document is that description.
func (s *Server) document(*http.Request) (any, error) { return openAPI, nil }
