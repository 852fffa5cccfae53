package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

// unknownVariables refuses variables that no setting has.
func unknownVariables() error {
	known := []string{"INGESTOR_CONFIG", TokenVariable}
	for _, set := range AllSettings {
		known = append(known, set.Variable())
	}
	var all []error
	for _, line := range slices.Sorted(slices.Values(os.Environ())) {
		name, text, _ := strings.Cut(line, "=")
		key, ours := strings.CutPrefix(name, "INGESTOR_")
		if ours && text != "" && !ofAService(key) && !slices.Contains(known, name) {
			all = append(all, unknownVariable(name, strings.ToLower(key), known))
		}
	}
	return errors.Join(all...)
}

// ofAService reports whether Kubernetes sets such a variable for a service called
// ingestor.
func ofAService(key string) bool {
	return key == "PORT" || strings.HasPrefix(key, "PORT_") || strings.HasPrefix(key, "SERVICE_HOST") || strings.HasPrefix(key, "SERVICE_PORT")
}

// unknownVariable says what to do instead of setting an unknown variable. Its value may
// be a secret and is not shown.
func unknownVariable(name, key string, known []string) error {
	for _, own := range []string{"jobs", "accounts", "tokens", "keys", "notify"} {
		if key == own || strings.HasPrefix(key, own+"_") {
			return fmt.Errorf("%s: %s are set in ingestor.yaml only; unset the variable", name, own)
		}
	}
	if strings.HasSuffix(key, "key") {
		return fmt.Errorf("%s: the key comes from YOUTUBE_API_KEY, or from a file that INGESTOR_KEY_FILE names", name)
	}
	ends := make([]string, len(known))
	for i, k := range known {
		ends[i] = strings.TrimPrefix(k, "INGESTOR_")
	}
	if best := strictyaml.Nearest(key, ends); best != "" {
		return fmt.Errorf("%s: there is no such variable; did you mean INGESTOR_%s?", name, best)
	}
	return fmt.Errorf("%s: there is no such variable; unset it\nTo list the settings: ingestor config schema. The variable of log_level is INGESTOR_LOG_LEVEL", name)
}

// words splits a list in a variable at commas and spaces.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
