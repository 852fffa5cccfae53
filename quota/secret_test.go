package quota_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// The secret of a receipt is shown by nothing that prints for people, in whatever
// spelling. The text of a token has it, because that is what callers pass on.
func TestNothingPrintsTheNonce(t *testing.T) {
	l, _ := newLedger(t)
	r := must(t, l, units(1))
	token, bytes16 := r.Token(), r.Nonce[:]
	spellings := []string{
		fmt.Sprint([]byte(bytes16))[1:30], fmt.Sprintf("%#v", [16]byte(bytes16))[9:40], hex.EncodeToString(bytes16), strings.ToUpper(hex.EncodeToString(bytes16)),
		base64.StdEncoding.EncodeToString(bytes16)[:20], string(bytes16), strings.Join(strings.Fields(fmt.Sprintf("%d", bytes16)), ",")[1:20], token.String(),
	}
	h, err := l.Hold(t.Context(), units(1), 1)
	if err != nil {
		t.Fatal(err)
	}
	e := quota.Event{Verdict: r.Verdict, Token: token}
	for _, shown := range []any{r, *r, r.Verdict, &r.Verdict, token, &token, r.Nonce, e, h, &quota.RefusedError{Verdict: r.Verdict}, []quota.Token{token}} {
		said := map[string]string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%x", "%X", "%d"} {
			said[verb] = fmt.Sprintf(verb, shown)
		}
		for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
			"slog text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			"slog JSON": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			if _, list := shown.([]quota.Token); list {
				continue // as JSON it passes tokens on
			}
			var b bytes.Buffer
			slog.New(handler(&b)).Info("it", "it", shown)
			said[name] = b.String()
		}
		for how, text := range said {
			for _, secret := range spellings {
				if strings.Contains(text, secret) {
					t.Errorf("%s of a %T shows the nonce as %q:\n%s", how, shown, secret, text)
				}
			}
		}
	}
	for _, v := range []any{r.Verdict, r.Nonce} {
		if text, err := json.Marshal(v); err != nil || strings.Contains(string(text), fmt.Sprint(bytes16[0])+","+fmt.Sprint(bytes16[1])) {
			t.Errorf("JSON of a %T: %s (%v)", v, text, err)
		}
	}
}

// An observer may write events down as JSON, where a token would be passed on.
func TestObserversAreToldNoSecret(t *testing.T) {
	var events []quota.Event
	watch := quota.ObserverFunc(func(e quota.Event) { events = append(events, e) })
	l, err := quota.New(mustParse(t, testBook), memstore.New(nil), &quota.Options{Observer: watch})
	if err != nil {
		t.Fatal(err)
	}
	token := must(t, l, units(3)).Token()
	if _, err := l.Settle(t.Context(), token, quota.Units{"units": 1}); err != nil {
		t.Fatal(err)
	}
	settled := events[len(events)-1]
	if want := (quota.Token{Upstream: token.Upstream, Account: token.Account, ID: token.ID}); settled.Kind != quota.EventSettled || settled.Token != want {
		t.Errorf("told %s of %v, want only whose it is: %v", settled.Kind, settled.Token, want)
	}
}

func TestTokensArePassedOnAsText(t *testing.T) {
	l, _ := newLedger(t)
	token := must(t, l, units(3)).Token()
	if said := fmt.Sprintf("%s", token); said != token.String() {
		t.Errorf("%%s is %q, want its text", said)
	}
	if said, want := fmt.Sprint(token), fmt.Sprintf("quota.Token{%q, %q, %q, (hidden)}", "youtube", "default", token.ID); said != want {
		t.Errorf("it is shown as %s, want %s", said, want)
	}
	text, err := json.Marshal(map[string]any{"token": token, "none": quota.Token{}})
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ Token, None quota.Token }
	if err := json.Unmarshal(text, &back); err != nil || back.Token != token || back.None != (quota.Token{}) {
		t.Errorf("%s is read back as %#v (%v)", text, back, err)
	}
	if err := json.Unmarshal([]byte(`{"token": "x"}`), &back); err == nil {
		t.Error("half a token was read")
	}
	if s, err := l.Release(t.Context(), back.Token); err != nil || s.Back != 3 {
		t.Errorf("released by what was passed on: %+v, %v", s, err)
	}
}
