package web

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPI describes what stands in the table under /api/ and /v1/.
//
//go:embed openapi.json
var openAPI json.RawMessage

// document is that description.
func (s *Server) document(*http.Request) (any, error) { return openAPI, nil }
