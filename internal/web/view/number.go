package view

import "strconv"

// Number writes 1234567 as 1,234,567.
func Number(n int64) string {
	digits, sign := strconv.FormatInt(n, 10), ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
