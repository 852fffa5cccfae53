package redisstore_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/redisstore"
)

func TestOpenRefused(t *testing.T) {
	for _, tt := range []struct{ name, address, want string }{
		{"another scheme", "http://:secret@localhost:6379", "invalid URL scheme"},
		{"a database that is no number", "redis://:secret@localhost:6379/x", "invalid database number"},
		{"no URL", "redis://:secret@local host:6379", "no URL"},
		{"an unknown option", "redis://:secret@localhost:6379?speed=high", "unexpected option"},
		{"a password for Sentinel", "redis://localhost:26379?master_name=main&sentinel_password=secret&db=x", "invalid database number"},
		{"a password that is no option", "redis://localhost:6379?password=secret", "unexpected option: password"},
		{"a password for a name", "redis://secret@localhost:6379/x", "invalid database number"},
		{"a password with a slash", "redis://:1/secret@localhost:6379/0", "as %2F"},
		{"a password with a question mark", "redis://:1?secret@localhost:6379", "as %2F"},
		{"a password with a hash", "redis://user:1#secret@localhost:6379", "as %2F"},
		{"a password with an at and a slash", "redis://user:1@2/secret@localhost:6379", "as %2F"},
		{"a replica's answers", "redis://:secret@localhost:7001?addr=localhost:7002&read_only=true", "must not read from replicas"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := redisstore.Open(tt.address, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q and no password", err, tt.want)
			}
		})
	}
}
