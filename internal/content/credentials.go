package content

// Credentials are the headers with which programs authenticate, beside that of the book.
// X-Goog-User-Project names the project that pays.
var Credentials = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Auth-Token",
	"X-Access-Token", "X-Amz-Security-Token", "X-Goog-User-Project", "X-Goog-Iam-Authorization-Token",
}

// CredentialParams are the query parameters with which programs authenticate.
var CredentialParams = []string{"access_token", "oauth_token", "api_key", "apikey"}
