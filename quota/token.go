package quota

import (
	"encoding/base64"
	"encoding/json"
)

// tokenForm is how a token looks outside.
type tokenForm struct {
	Upstream string `json:"u"`
	Account  string `json:"a"`
	ID       string `json:"i"`
	Nonce    []byte `json:"n"`
}

// String is the token as opaque text, for callers in other processes and other
// languages. The zero token is "".
func (t Token) String() string {
	if t.ID == "" {
		return ""
	}
	b, err := json.Marshal(tokenForm{t.Upstream, t.Account, t.ID, t.Nonce[:]})
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken reads what [Token.String] wrote.
func ParseToken(text string) (Token, error) {
	bad := BadInput("token %.20q was not made by this ledger", text)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Token{}, bad
	}
	var f tokenForm
	if json.Unmarshal(b, &f) != nil || len(f.Nonce) != len(Token{}.Nonce) || !validID(f.ID) || f.Upstream == "" || f.Account == "" || checkNames(f.Upstream, f.Account) != nil {
		return Token{}, bad
	}
	return Token{Upstream: f.Upstream, Account: f.Account, ID: f.ID, Nonce: [16]byte(f.Nonce)}, nil
}
