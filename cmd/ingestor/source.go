package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Where a setting comes from, beside a flag or a variable.
const (
	fromDefault = "default"
	fromFile    = "file"
)

// source says where a setting comes from: --flag, INGESTOR_VARIABLE, file or default.
func (s *settings) source(key string) string {
	name := strings.ReplaceAll(key, "_", "-")
	switch {
	case slices.Contains(flagKeys, key) && s.flags != nil && s.flags.Changed(name):
		return "--" + name
	case os.Getenv(variable(key)) != "":
		return variable(key)
	case s.where([]string{key}) != nil:
		return fromFile
	}
	return fromDefault
}

// variable is the environment's name of a setting.
func variable(key string) string {
	return "INGESTOR_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// environment refuses variables that no setting has, and values that cannot be read.
func environment(defaults map[string]any) error {
	var all []error
	for _, line := range slices.Sorted(slices.Values(os.Environ())) {
		name, text, _ := strings.Cut(line, "=")
		key, ours := strings.CutPrefix(name, "INGESTOR_")
		if !ours || text == "" || name == "INGESTOR_CONFIG" || name == tokenVariable || ofAService(key) {
			continue
		}
		key = strings.ToLower(key)
		if like, known := defaults[key]; !known || name != variable(key) {
			all = append(all, noVariable(name, key, defaults))
		} else if err := legible(key, text, like); err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

// ofAService reports whether Kubernetes sets such a variable, for a service that is
// called ingestor.
func ofAService(key string) bool {
	return key == "PORT" || strings.HasPrefix(key, "PORT_") || strings.HasPrefix(key, "SERVICE_HOST") || strings.HasPrefix(key, "SERVICE_PORT")
}

// noVariable says what to do instead of setting a variable that there is not. Its
// value may be a secret and is not shown.
func noVariable(name, key string, defaults map[string]any) error {
	for _, own := range []string{"jobs", "accounts"} {
		if key == own || strings.HasPrefix(key, own+"_") {
			return fmt.Errorf("%s: %s are set in ingestor.yaml only; unset it", name, own)
		}
	}
	if strings.HasSuffix(key, "key") {
		return fmt.Errorf("%s: the key comes from YOUTUBE_API_KEY, or from a file that INGESTOR_KEY_FILE names", name)
	}
	var there []string
	for _, known := range slices.Sorted(maps.Keys(defaults)) {
		there = append(there, variable(known))
	}
	return fmt.Errorf("%s: there is no such variable; there are INGESTOR_CONFIG, %s, %s", name, tokenVariable, strings.Join(there, ", "))
}

// legible refuses a text that is none of what a setting is by default.
func legible(key, text string, like any) error {
	switch like.(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return noTime(text)
		case d == 0 && slices.Contains(notZero, key):
			return errZero
		}
	case int:
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return fmt.Errorf("%q is no whole number", text)
		case n == 0 && slices.Contains(notZero, key):
			return errZero
		}
	case bool:
		if _, err := strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case []string:
		if len(words(text)) == 0 {
			return fmt.Errorf("%q names nothing", text)
		}
	}
	return nil
}

// words are those of a list in a variable, between commas or spaces.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
