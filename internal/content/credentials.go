package content

import (
	"net/url"
	"slices"
	"strings"
)

// Credentials are the headers with which programs authenticate, beside that of the book.
// X-Goog-User-Project names the project that pays.
var Credentials = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Auth-Token",
	"X-Access-Token", "X-Amz-Security-Token", "X-Goog-User-Project", "X-Goog-Iam-Authorization-Token",
}

// CredentialParams are the query parameters with which programs authenticate.
var CredentialParams = []string{"access_token", "oauth_token", "api_key", "apikey"}

// FilterQuery returns a query without the parameters that drop is true of.
func FilterQuery(raw string, drop func(name, value string) bool) string {
	plain := func(text string) string {
		if plain, err := url.QueryUnescape(text); err == nil {
			return plain
		}
		return text
	}
	return strings.Join(slices.DeleteFunc(strings.Split(raw, "&"), func(part string) bool {
		name, value, _ := strings.Cut(part, "=")
		return drop(plain(name), plain(value))
	}), "&")
}
