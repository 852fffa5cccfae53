package meter

import (
	"net/http"
	"time"
)

// dateOf returns when an answer was made, by the upstream's clock.
func dateOf(resp *http.Response) (time.Time, bool) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	return date, err == nil
}
