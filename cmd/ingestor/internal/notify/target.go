package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/mail"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is a kind of event.
type Kind string

// The kinds.
const (
	Share   Kind = "share"   // of a pool's limit is used
	Gone    Kind = "gone"    // a pool has too few units for a call
	Blocked Kind = "blocked" // a pool, by the upstream or a person
	Ledger  Kind = "ledger"  // it cannot be read, or a pool lost its count
	Run     Kind = "run"     // one failed
	Missed  Kind = "missed"  // a run, when it was due
	Daemon  Kind = "daemon"  // of a fleet: silent, or locked out
	Disk    Kind = "disk"    // it fills up
)

var kinds = []Kind{Share, Gone, Blocked, Ledger, Run, Missed, Daemon, Disk}

// Target is where notices go.
type Target struct {
	Webhook string   `yaml:"webhook,omitempty" doc:"The URL of a webhook, which gets a JSON body by POST."`
	Secret  string   `yaml:"secret_file,omitempty" doc:"A file with the secret that signs the webhook's body, as whsec_ and base64: see standardwebhooks.com."`
	Command []string `yaml:"command,omitempty" doc:"A program and its arguments, which gets the same JSON on its standard input."`
	Mail    []string `yaml:"mail,omitempty" doc:"Addresses that get a mail, by the system's sendmail."`
	From    string   `yaml:"from,omitempty" doc:"The sender of the mail. Empty: the user of the program."`
	Tell    []Kind   `yaml:"tell,omitempty" words:"share|gone|blocked|ledger|run|missed|daemon|disk" doc:"The kinds of events to tell. All if empty."`
	Share   int      `yaml:"share,omitempty" range:"1..100" doc:"The part of a pool's limit, in percent, from which to tell that it is used. 80 if empty."`
}

const defaultShare = 80

func (t *Target) share() int { return cmp.Or(t.Share, defaultShare) }

func (t *Target) wants(e *event) bool {
	return (len(t.Tell) == 0 || slices.Contains(t.Tell, e.Kind)) && (e.Kind != Share || e.Share == 0 || e.Share == t.share())
}

// Check returns what is wrong with a target, by field.
func (t *Target) Check() (faults map[string]error) {
	faults = map[string]error{}
	ways := 0
	for _, has := range []bool{t.Webhook != "", len(t.Command) > 0, len(t.Mail) > 0} {
		if has {
			ways++
		}
	}
	if ways != 1 {
		faults[""] = errors.New("it needs one of webhook, command and mail, as {webhook: https://alerts.example.com/hook}")
	}
	if u, err := url.Parse(t.Webhook); t.Webhook != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		faults["webhook"] = errors.New("it is no address, as https://alerts.example.com/hook") // it may hold a secret
	}
	if t.Secret != "" && t.Webhook == "" {
		faults["secret_file"] = errors.New("only a webhook is signed; remove it")
	}
	for _, address := range append(slices.Clone(t.Mail), t.From) {
		if _, err := mail.ParseAddress(address); address != "" && (err != nil || strings.ContainsAny(address, "\r\n")) {
			faults["mail"] = fmt.Errorf("%q is no address of mail, as ops@example.com", address)
		}
	}
	for _, k := range t.Tell {
		if !slices.Contains(kinds, k) {
			faults["tell"] = fmt.Errorf("there is no kind %q; there are %s", k, strings.Trim(fmt.Sprint(kinds), "[]"))
		}
	}
	if t.Share < 0 || t.Share > 100 {
		faults["share"] = fmt.Errorf("%d is no part in percent, from 1 to 100", t.Share)
	}
	return faults
}

// Ready returns an error if nothing can be sent: a program or a secret is missing.
func (t *Target) Ready() error {
	switch {
	case len(t.Command) > 0:
		_, err := exec.LookPath(t.Command[0])
		return err
	case len(t.Mail) > 0:
		_, err := sendmail()
		return err
	}
	_, err := t.secret()
	return err
}

// sendmail finds the program that sends mail.
func sendmail() (string, error) {
	for _, path := range []string{"sendmail", "/usr/sbin/sendmail", "/usr/lib/sendmail"} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", errors.New("there is no sendmail on this machine; install a mail server such as msmtp-mta, or use a webhook or a command")
}

// secret returns the secret of a webhook, or nil if it has none.
func (t *Target) secret() ([]byte, error) {
	if t.Secret == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.Secret)
	if err != nil {
		return nil, fmt.Errorf("read the secret of the webhook: %w", err)
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(text)), "whsec_"))
	if err != nil || len(secret) < 16 {
		return nil, fmt.Errorf("%s holds no secret: write whsec_ and at least 24 bytes in base64, as by: echo whsec_$(openssl rand -base64 24)", t.Secret)
	}
	return secret, nil
}

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

// Pinger tells a dead man's switch that runs begin and end, with the protocol of healthchecks.io: /start, and
// then the exit code. It never delays a run. Nil tells nobody.
type Pinger struct {
	address atomic.Pointer[string]
	log     *slog.Logger
	client  *http.Client

	mu    sync.Mutex
	last  map[string]chan struct{} // by job: closed when its last ping has ended
	under sync.WaitGroup
}

// NewPinger returns a pinger that asks no address yet.
func NewPinger(log *slog.Logger) *Pinger {
	p := &Pinger{log: log, client: newClient(), last: map[string]chan struct{}{}}
	p.Set("")
	return p
}

// Set sets the address. An empty one is asked nothing.
func (p *Pinger) Set(address string) {
	if p != nil {
		p.address.Store(&address)
	}
}

// CheckPing returns what is wrong with the address of a switch. The error does not show it.
func CheckPing(address string) error {
	if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("it is no address, as https://hc-ping.com/KEY/{job}")
	}
	return nil
}

// Host is what may be shown of an address that may hold a secret.
func Host(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// Begin says that a run of a job has begun.
func (p *Pinger) Begin(job string) { p.ping(job, "start", "") }

// End says how a run of a job ended.
func (p *Pinger) End(job string, code int, text string) { p.ping(job, strconv.Itoa(code), text) }

// The tries of a ping, and the time of each.
const (
	pings      = 3
	pingWithin = 10 * time.Second
)

func (p *Pinger) ping(job, what, text string) {
	if p == nil {
		return
	}
	address := *p.address.Load()
	if address == "" {
		return
	}
	to, err := url.Parse(strings.ReplaceAll(address, "{job}", url.PathEscape(job)))
	if err != nil {
		return // the settings were checked
	}
	to = to.JoinPath(what)
	ended := make(chan struct{})
	p.mu.Lock()
	before := p.last[job] // so that /start does not arrive last
	p.last[job] = ended
	p.mu.Unlock()
	p.under.Go(func() {
		defer close(ended)
		if before != nil {
			<-before
		}
		for try := 1; ; try++ {
			if err = p.once(to.String(), text); err == nil {
				return
			}
			if try == pings {
				break
			}
			time.Sleep(time.Duration(try) * time.Second)
		}
		p.log.Warn("cannot ping", "job", job, "error", err)
	})
}

func (p *Pinger) once(address, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), pingWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(cut(text)))
	if err != nil {
		return errors.New("the address of ping is wrong")
	}
	req.Header.Set("User-Agent", "headroom-ingestor")
	return do(p.client, req)
}

// Wait waits for pings under way, for a time at most.
func (p *Pinger) Wait(most time.Duration) {
	if p == nil {
		return
	}
	done := make(chan struct{})
	go func() { p.under.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(most):
	}
}
