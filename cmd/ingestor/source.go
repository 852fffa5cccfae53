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

// environment refuses what cannot be read, by the name of its variable.
func environment(defaults map[string]any) error {
	var all []error
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		text := os.Getenv(variable(key))
		if text == "" {
			continue
		}
		switch defaults[key].(type) {
		case time.Duration:
			if _, err := time.ParseDuration(text); err != nil {
				all = append(all, fmt.Errorf("%s: %q is no length of time; write it with its unit, as 90s or 6h", variable(key), text))
			}
		case int:
			if _, err := strconv.Atoi(text); err != nil {
				all = append(all, fmt.Errorf("%s: %q is no whole number", variable(key), text))
			}
		}
	}
	return errors.Join(all...)
}
