package youtubesim

import "strings"

// regionCodes are the regions of i18nRegions.list, which have content of their own.
var regionCodes = [...]string{
	"AE", "AR", "AT", "AU", "AZ", "BA", "BD", "BE", "BG", "BH", "BO", "BR", "BY", "CA", "CH", "CL", "CO", "CR", "CY", "CZ",
	"DE", "DK", "DO", "DZ", "EC", "EE", "EG", "ES", "FI", "FR", "GB", "GE", "GH", "GR", "GT", "HK", "HN", "HR", "HU", "ID",
	"IE", "IL", "IN", "IQ", "IS", "IT", "JM", "JO", "JP", "KE", "KH", "KR", "KW", "KZ", "LA", "LB", "LI", "LK", "LT", "LU",
	"LV", "LY", "MA", "ME", "MK", "MT", "MX", "MY", "NG", "NI", "NL", "NO", "NP", "NZ", "OM", "PA", "PE", "PG", "PH", "PK",
	"PL", "PR", "PT", "PY", "QA", "RO", "RS", "RU", "SA", "SE", "SG", "SI", "SK", "SN", "SV", "TH", "TN", "TR", "TW", "TZ",
	"UA", "UG", "US", "UY", "VE", "VN", "YE", "ZA", "ZW",
}

// regionOf finds a region by its code.
func regionOf(code string) (int, bool) {
	for i, c := range regionCodes {
		if c == code {
			return i, true
		}
	}
	return 0, false
}

// category is a category with videos. Since 2025-07-21 only music, films and games have
// charts.
type category struct {
	id      string
	charted bool
	topic   string // the Wikipedia article that topicDetails points to
}

var categories = [...]category{
	{"10", true, "Music"},
	{"1", true, "Film"},
	{"20", true, "Video_game_culture"},
	{"17", false, "Sport"},
	{"22", false, "Lifestyle_(sociology)"},
	{"24", false, "Entertainment"},
	{"25", false, "Politics"},
	{"28", false, "Technology"},
}

// charted is the number of categories with a chart; they are first.
const charted = 3

// otherCategories exist but have no videos here.
var otherCategories = []string{"2", "15", "18", "19", "21", "23", "26", "27", "29", "30", "31", "32", "33", "34", "35", "36", "37", "38", "39", "40", "41", "42", "43", "44"}

// regionLanguages holds the languages of regions; others speak English.
var regionLanguages = map[string]string{
	"de": "AT CH DE LI LU", "fr": "BE FR SN", "es": "AR BO CL CO CR DO EC ES GT HN MX NI PA PE PR PY SV UY VE",
	"pt": "BR PT", "hi": "IN NP", "ja": "JP", "ko": "KR", "zh": "HK TW", "th": "LA TH", "ru": "BY KZ RU", "uk": "UA",
	"ar": "AE BH DZ EG IQ JO KW LB LY MA OM QA SA TN YE", "he": "IL", "tr": "AZ TR", "pl": "PL", "el": "CY GR", "vi": "VN",
}

// languageByRegion has one language for each region, and English for the world.
var languageByRegion = func() (by [len(regionCodes) + 1]*language) {
	for i := range by {
		by[i] = &languages[0]
	}
	for l := range languages {
		for _, code := range strings.Fields(regionLanguages[languages[l].code]) {
			r, _ := regionOf(code)
			by[r] = &languages[l]
		}
	}
	return by
}()

func languageOf(region int) *language { return languageByRegion[region] }
