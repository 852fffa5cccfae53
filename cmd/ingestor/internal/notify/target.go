package notify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
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

func (t *Target) share() int {
	if t.Share == 0 {
		return defaultShare
	}
	return t.Share
}

func (t *Target) wants(e *event) bool {
	return (len(t.Tell) == 0 || slices.Contains(t.Tell, e.Kind)) && (e.Kind != Share || e.Share == t.share())
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
