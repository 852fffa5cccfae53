package monitoringsim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"sync"
)

// Email is the service account that the server knows.
const Email = "reconcile@headroom-test.iam.gserviceaccount.com"

// serviceKey is the key of the service account, and the token that it is given.
type serviceKey struct {
	private *rsa.PrivateKey
	token   string
	revoked bool
}

// private makes the key of all servers of a process: it takes a while.
var private = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// Credentials returns the file of a key of the service account. From now on the server
// wants a token for each request.
func (s *Server) Credentials() ([]byte, error) {
	key, err := private()
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = &serviceKey{private: key, token: "ya29.token-" + rand.Text()}
	return json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": s.Project, "private_key_id": "1", "client_id": "1",
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"client_email": Email, "token_uri": s.URL + "/token", "universe_domain": "googleapis.com",
	}, "", "  ")
}

// Secrets are the texts that must be in no log and in no error: the private key, and the
// token.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	der, _ := x509.MarshalPKCS8PrivateKey(s.key.private)
	return []string{base64.StdEncoding.EncodeToString(der)[:64], s.key.token, "PRIVATE KEY"}
}

// Revoke deletes the key of the service account.
func (s *Server) Revoke() { s.mu.Lock(); defer s.mu.Unlock(); s.key.revoked = true }

// Token replaces what the token server does; it returns false if it has not answered.
func (s *Server) Token(answer func(w http.ResponseWriter, assertion string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = answer
}

func (s *Server) giveToken(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	assertion := req.FormValue("assertion")
	switch {
	case s.token != nil && s.token(w, assertion):
	case !s.signed(assertion):
		reply(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
	default:
		reply(w, http.StatusOK, map[string]any{"access_token": s.key.token, "expires_in": 3599, "token_type": "Bearer"})
	}
}

// signed reports whether the service account has signed a request for a token to read.
func (s *Server) signed(assertion string) bool {
	parts := strings.Split(assertion, ".")
	if s.key == nil || s.key.revoked || len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(&s.key.private.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return false
	}
	var claims struct {
		Issuer string `json:"iss"`
		Scope  string `json:"scope"`
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(text, &claims) == nil && claims.Issuer == Email && claims.Scope == "https://www.googleapis.com/auth/monitoring.read"
}
