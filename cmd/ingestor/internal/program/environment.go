package program

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota"
)

// secrets are how the names of variables begin that give this process its key, the URLs and
// the passwords of its databases, and its credentials of Google and of a collector of traces.
var secrets = []string{
	"YOUTUBE_API_KEY", "INGESTOR_", "PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSSLPASSWORD", "OTEL_EXPORTER_OTLP", "GOOGLE_APPLICATION_CREDENTIALS",
}

// environment returns the variables of the program: ours, without those that hold secrets. A
// proxy of the network is not asked for our address, or it would get the token.
func (o *Options) environment(costs *quota.Book, address, token string) []string {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		secret := slices.ContainsFunc(secrets, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		return secret && !slices.Contains(o.PassEnv, name)
	})
	env = append(env, "HEADROOM_PROXY="+address, "HEADROOM_TOKEN="+token)
	env = append(env, noProxy("NO_PROXY", "no_proxy"), noProxy("no_proxy", "NO_PROXY"))
	if o.State != "" {
		env = append(env, "HEADROOM_STATE="+o.State)
	}
	for _, name := range o.Upstreams {
		u := costs.Upstreams[name]
		if u == nil {
			continue
		}
		if u.Env != "" {
			env = append(env, u.Env+"="+address+"/"+name+u.EnvPath)
		}
		if u.EnvKey != "" {
			env = append(env, u.EnvKey+"="+token)
		}
	}
	return env
}

// noProxy returns a variable with the hosts that no proxy is asked for: those it has, and us.
func noProxy(name, other string) string {
	const us = "127.0.0.1,localhost"
	switch hosts := cmp.Or(os.Getenv(name), os.Getenv(other)); hosts {
	case "":
		return name + "=" + us
	case "*": // all
		return name + "=*"
	default:
		return name + "=" + hosts + "," + us
	}
}
