package quota

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// tokenForm is the text form of a token.
type tokenForm struct {
	Upstream string `json:"u"`
	Account  string `json:"a"`
	ID       string `json:"i"`
	Nonce    []byte `json:"n"`
	Least    Units  `json:"l,omitempty"`
	End      string `json:"e,omitempty"`
	Bill     string `json:"b,omitempty"`
}

// String returns the token as opaque text, for callers in other processes and languages.
// The text contains the secret that settles the reservation, so keep it out of logs. The
// zero token is "".
func (t Token) String() string {
	if t.ID == "" {
		return ""
	}
	b, err := json.Marshal(tokenForm{t.Upstream, t.Account, t.ID, t.Nonce[:], readUnits(t.least), t.end, t.bill})
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Format implements [fmt.Formatter]. Only %s shows the text of [Token.String], which
// passes the token on; %v and all other verbs, as in a log, hide its secret.
func (t Token) Format(f fmt.State, verb rune) {
	if verb == 's' {
		_, _ = io.WriteString(f, t.String())
		return
	}
	_, _ = fmt.Fprintf(f, "quota.Token{%q, %q, %q, %v}", t.Upstream, t.Account, t.ID, t.Nonce)
}

// LogValue implements [slog.LogValuer]. It leaves out the secret.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("upstream", t.Upstream), slog.String("account", t.Account), slog.String("id", t.ID))
}

// MarshalText implements [encoding.TextMarshaler], so that JSON passes a token on.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. No text is the zero token.
func (t *Token) UnmarshalText(text []byte) error {
	var read Token
	var err error
	if len(text) > 0 {
		read, err = ParseToken(string(text))
	}
	if err == nil {
		*t = read
	}
	return err
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
	return Token{Upstream: f.Upstream, Account: f.Account, ID: f.ID, Nonce: [16]byte(f.Nonce), least: writeUnits(f.Least), end: f.End, bill: f.Bill}, nil
}

// plain returns the token without what only settling needs.
func (t Token) plain() Token {
	t.least, t.end, t.bill, t.bounds = "", "", "", nil
	return t
}

// endMark stands before and behind the name of each pool in Token.end. No name has it.
const endMark = "\n"

// AtEnd reports whether the upstream counts a call's units of a pool when the call ends.
// Settling them to more than nothing then moves them: in one step, a store gives back what
// was taken when the call started, and charges what it has cost now.
func (t *Token) AtEnd(pool string) bool {
	return t.end != "" && strings.Contains(t.end, endMark+pool+endMark)
}

// writeUnits returns units as text, so that a token can be compared.
func writeUnits(units Units) string {
	if len(units) == 0 {
		return ""
	}
	b, err := json.Marshal(units) // in the order of the names
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return string(b)
}

// readUnits reads what writeUnits wrote.
func readUnits(text string) (units Units) {
	if text != "" {
		_ = json.Unmarshal([]byte(text), &units)
	}
	return units
}
