package youtubesim

import (
	"strconv"
	"time"
)

// Refusal is a shape of the upstream's refusals.
type Refusal string

// The shapes of refusals. doc.go says which are assumed.
const (
	QuotaExceeded      Refusal = "quotaExceeded"      // 403, domain youtube.quota, HTML in the message: the default pool
	DailyLimitExceeded Refusal = "dailyLimitExceeded" // 403, domain usageLimits: the default pool, years ago
	PerDay             Refusal = "perDay"             // 429 RESOURCE_EXHAUSTED, ErrorInfo with quota_unit 1/d: the new pools
	PerDayBare         Refusal = "perDayBare"         // the same without details
	PerMinute          Refusal = "perMinute"          // 429 with quota_unit 1/min: a burst
	RateLimitExceeded  Refusal = "rateLimitExceeded"  // 403, domain usageLimits: a burst, years ago
	KeyInvalid         Refusal = "keyInvalid"         // 400 API_KEY_INVALID: no such key
	KeyInvalidOld      Refusal = "keyInvalidOld"      // 400, domain usageLimits: the same, years ago
	KeyBlocked         Refusal = "keyBlocked"         // 403 API_KEY_SERVICE_BLOCKED: the key may not be used for this API
	KeyMissing         Refusal = "keyMissing"         // 403: no key at all
)

// refusals holds the default refusal of each pool.
func (g Generation) refusal(p Pool) Refusal {
	switch {
	case p != Default:
		return PerDay
	case g == OnePool:
		return DailyLimitExceeded
	default:
		return QuotaExceeded
	}
}

// metric is the name of a pool in refusals.
type metric struct{ metric, limit, queries string }

var metrics = map[Pool]metric{
	Default:            {"default", "default", "Queries"},
	SearchList:         {"search_list", "defaultSearchList", "Search Queries"},
	VideoInsert:        {"video_insert", "defaultVideoInsert", "Video Uploads"},
	VideoBatchGetStats: {"video_batch_get_stats", "defaultVideoBatchGetStats", "Video Batch Get Stats"},
}

type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata"`
}

func info(reason string, metadata map[string]string) errorInfo {
	return errorInfo{"type.googleapis.com/google.rpc.ErrorInfo", reason, "googleapis.com", metadata}
}

type help struct {
	Type  string `json:"@type"`
	Links []link `json:"links"`
}

type link struct {
	Description string `json:"description"`
	URL         string `json:"url"`
}

type localizedMessage struct {
	Type    string `json:"@type"`
	Locale  string `json:"locale"`
	Message string `json:"message"`
}

const service = "youtube.googleapis.com"

// refused describes a refused request.
type refused struct {
	now     time.Time
	world   world
	project string
	method  *method
	pool    Pool
	limit   int64
}

// number returns the upstream's public number of a project.
func (r refused) number() string {
	return strconv.FormatUint(100_000_000_000+r.world.hashText(ofProject, r.project)%900_000_000_000, 10)
}

// failure returns the failure of a refusal, in its shape.
func (r refused) failure(shape Refusal) *failure {
	m := metrics[r.pool]
	console := "https://console.developers.google.com/apis/api/" + service + "/quotas?project=" + r.number()
	switch shape {
	case QuotaExceeded:
		return failed(403, "youtube.quota", "quotaExceeded", `The request cannot be completed because you have exceeded your <a href="/youtube/v3/getting-started#quota">quota</a>.`)
	case DailyLimitExceeded:
		f := failed(403, "usageLimits", "dailyLimitExceeded", "Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT). You may monitor your quota usage and adjust limits in the API Console: "+console)
		f.Errors[0].ExtendedHelp = console
		return f.older()
	case RateLimitExceeded:
		return failed(403, "usageLimits", "rateLimitExceeded", "Rate Limit Exceeded").older()
	case PerDay, PerDayBare:
		_, begins, _ := dayOf(r.now)
		return r.exhausted(m, "day", "PerDayPerProject", "1/d/{project}", r.limit, begins, shape == PerDay)
	case PerMinute:
		return r.exhausted(m, "minute", "PerMinutePerProject", "1/min/{project}", 1_800, r.now.Truncate(time.Minute), true)
	case KeyInvalidOld:
		return failed(400, "usageLimits", "keyInvalid", "Bad Request").older()
	case KeyInvalid:
		message := "API key not valid. Please pass a valid API key."
		return failed(400, "global", "badRequest", message).status("INVALID_ARGUMENT",
			info("API_KEY_INVALID", map[string]string{"service": service}),
			localizedMessage{"type.googleapis.com/google.rpc.LocalizedMessage", "en-US", message})
	case KeyBlocked:
		full := "youtube.api.v3." + r.method.service
		return failed(403, "global", "forbidden", "Requests to this API youtube method "+full+" are blocked.").status("PERMISSION_DENIED",
			info("API_KEY_SERVICE_BLOCKED", map[string]string{"service": service, "consumer": "projects/" + r.number()}))
	case KeyMissing:
		return failed(403, "global", "forbidden", "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.").status("PERMISSION_DENIED")
	default:
		panic("youtubesim: there is no refusal " + strconv.Quote(string(shape)))
	}
}

// exhausted returns the newer shape of an exhausted quota.
func (r refused) exhausted(m metric, per, limit, unit string, value int64, begins time.Time, detailed bool) *failure {
	f := failed(429, "global", "rateLimitExceeded", "Quota exceeded for quota metric '"+m.queries+"' and limit '"+m.queries+" per "+per+
		"' of service '"+service+"' for consumer 'project_number:"+r.number()+"'.")
	if !detailed {
		return f.status("RESOURCE_EXHAUSTED")
	}
	return f.status("RESOURCE_EXHAUSTED",
		info("RATE_LIMIT_EXCEEDED", map[string]string{
			"service": service, "consumer": "projects/" + r.number(), "quota_metric": service + "/" + m.metric,
			"quota_limit": m.limit + limit, "quota_limit_value": strconv.FormatInt(value, 10), "quota_unit": unit,
			"quota_location": "global", "window_start_time": begins.UTC().Format(time.RFC3339),
		}),
		help{"type.googleapis.com/google.rpc.Help", []link{{"Request a higher quota limit.", "https://cloud.google.com/docs/quotas/help/request_increase"}}})
}
