package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// sendWithin is how long a target may take, less than a message is held.
const sendWithin = 20 * time.Second

// body is what a webhook and a command get.
type body struct {
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"`
	Data struct {
		Text  string `json:"text"` // for people, a line for each item
		Items []Item `json:"items"`
		More  int    `json:"more,omitempty"`
	} `json:"data"`
}

// bodyOf returns the JSON of a message. It is the same each time that the message is sent.
func bodyOf(m *message) ([]byte, error) {
	b := body{Type: "headroom.notices", Time: m.Made.UTC()}
	b.Data.Text, b.Data.Items, b.Data.More = textOf(m), m.Items, m.More
	return json.Marshal(&b)
}

// textOf says what happened, a line for each event.
func textOf(m *message) string {
	var lines []string
	for _, i := range m.Items {
		line := i.Text
		if i.State == over {
			line = fmt.Sprintf("Over since %s: %s", i.Ended.UTC().Format("15:04 MST"), line)
		}
		lines = append(lines, line)
	}
	if m.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: ingestor notify shows them", m.More))
	}
	return strings.Join(lines, "\n")
}

func send(ctx context.Context, client *http.Client, t *Target, m *message, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	text, err := bodyOf(m)
	if err != nil {
		return err
	}
	switch {
	case t.Webhook != "":
		return post(ctx, client, t, m.ID, text, now)
	case len(t.Command) > 0:
		return pipe(ctx, t.Command, text)
	}
	path, err := sendmail()
	if err != nil {
		return err
	}
	return pipe(ctx, []string{path, "-t", "-i"}, letter(t, m))
}

// post sends a body to a webhook, with the headers of Standard Webhooks. Errors do not show the address,
// which may hold a secret.
func post(ctx context.Context, client *http.Client, t *Target, id string, text []byte, now time.Time) error {
	secret, err := t.secret()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Webhook, bytes.NewReader(text))
	if err != nil {
		return errors.New("the address of the webhook is wrong")
	}
	at := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "headroom-ingestor")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	if secret != nil {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.%s", id, at, text)
		req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return do(client, req)
}

// do makes a request, and returns an error without its address unless it succeeded.
func do(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if failed, is := errors.AsType[*url.Error](err); is {
		return fmt.Errorf("ask %s: %w", req.URL.Host, failed.Err)
	}
	if err != nil {
		return fmt.Errorf("ask %s: %w", req.URL.Host, err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	err = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", req.URL.Host, resp.Status)
	}
	return err
}

// newClient returns a client that follows no redirects: a message goes where the settings say.
func newClient() *http.Client {
	return &http.Client{Timeout: sendWithin, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// passed are the variables that a program gets. Others may hold keys.
var passed = []string{"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR"}

// pipe runs a program with a text as its standard input.
func pipe(ctx context.Context, command []string, text []byte) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = []string{}
	for _, name := range passed {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(text), time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.200s", command[0], err, bytes.TrimSpace(out))
	}
	return nil
}

func letter(t *Target, m *message) []byte {
	var b bytes.Buffer
	if t.From != "" {
		fmt.Fprintf(&b, "From: %s\n", t.From)
	}
	subject := strings.SplitN(textOf(m), "\n", 2)[0]
	if n := len(m.Items) + m.More - 1; n > 0 {
		subject = fmt.Sprintf("%s, and %d more", subject, n)
	}
	fmt.Fprintf(&b, "To: %s\nSubject: [headroom] %s\nMessage-ID: <%s@headroom>\nDate: %s\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nAuto-Submitted: auto-generated\n\n%s\n",
		strings.Join(t.Mail, ", "), plainLine(subject), m.ID, m.Made.UTC().Format(time.RFC1123Z), textOf(m))
	return b.Bytes()
}

// plainLine returns a text for a header of a mail.
func plainLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}
