package content

import (
	"net/url"

	"github.com/headroom-quota/headroom/quota/book"
)

// longForm is the longest form that is read.
const longForm = 1 << 20

// form is the body of a request that is a form, as browsers and some SDKs send it.
type form struct {
	text   []byte
	long   bool
	values url.Values // once it has ended
}

func (f *form) write(p []byte) {
	if f.long = f.long || len(f.text)+len(p) > longForm; !f.long {
		f.text = append(f.text, p...)
	}
}

// end reads the values of a form that is complete. Of one that is no form, there are none.
func (f *form) end() {
	if values, err := url.ParseQuery(string(f.text)); err == nil && !f.long {
		f.values = values
	}
	f.text = nil
}

func (f *form) value(s *book.Source) (string, bool) {
	if f == nil || len(f.values[s.Body]) == 0 || s.Body == "" {
		return "", false
	}
	return f.values[s.Body][0], true
}
