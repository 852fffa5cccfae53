package youtubesim_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// document is the SDK's discovery document, as far as answers are concerned.
type document struct {
	Parameters map[string]any
	Schemas    map[string]*schema
	Resources  map[string]struct {
		Methods map[string]struct {
			HTTPMethod, Path string
			Parameters       map[string]any
			Response         struct {
				Ref string `json:"$ref"`
			}
		}
	}
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	Enum                 []string
	Items                *schema
	Properties           map[string]*schema
	AdditionalProperties *schema
}

func discovery(t *testing.T) (d document) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/api").Output()
	if err != nil {
		t.Fatalf("find the SDK: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "youtube/v3/youtube-api.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var seconds = regexp.MustCompile(`^\d+(\.\d+)?s$`)

// faults are what an answer has that its schema does not allow.
func (d document) faults(s *schema, value any, at string) (all []string) {
	wrong := func(format string, args ...any) { all = append(all, at+": "+fmt.Sprintf(format, args...)) }
	if s.Ref != "" {
		s = d.Schemas[s.Ref]
	}
	switch s.Type {
	case "object":
		object, ok := value.(map[string]any)
		if !ok {
			wrong("%v is no object", value)
		}
		for name, v := range object {
			switch p := s.Properties[name]; {
			case p != nil:
				all = append(all, d.faults(p, v, at+"."+name)...)
			case s.AdditionalProperties != nil:
				all = append(all, d.faults(s.AdditionalProperties, v, at+"."+name)...)
			default:
				wrong("unknown field %s", name)
			}
		}
	case "array":
		array, ok := value.([]any)
		if !ok {
			wrong("%v is no array", value)
		}
		for i, v := range array {
			all = append(all, d.faults(s.Items, v, at+"["+strconv.Itoa(i)+"]")...)
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			wrong("%v is no boolean", value)
		}
	case "integer":
		n, ok := value.(float64)
		if !ok || n != math.Trunc(n) || s.Format == "uint32" && (n < 0 || n > math.MaxUint32) || s.Format == "int32" && math.Abs(n) > math.MaxInt32 {
			wrong("%v is no %s", value, s.Format)
		}
	case "string":
		text, ok := value.(string)
		if !ok {
			wrong("%v is no string", value)
		}
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
			wrong("%q is not one of %v", text, s.Enum)
		}
		var err error
		switch s.Format {
		case "":
		case "date-time", "google-datetime":
			_, err = time.Parse(time.RFC3339, text)
		case "uint64":
			_, err = strconv.ParseUint(text, 10, 64)
		case "int64":
			_, err = strconv.ParseInt(text, 10, 64)
		case "google-duration":
			if !seconds.MatchString(text) {
				wrong("%q is no duration in seconds", text)
			}
		default:
			wrong("the test knows no format %s", s.Format)
		}
		if err != nil {
			wrong("%v", err)
		}
	default:
		wrong("the test knows no type %q", s.Type)
	}
	return all
}

// parts are what each part of a resource always has: the document requires
// nothing, so that {} would do.
var parts = map[string]map[string][]string{
	"videos": {
		"id": {},
		"snippet": {
			"publishedAt", "channelId", "title", "description", "channelTitle", "categoryId", "liveBroadcastContent", "localized.title", "localized.description",
			"thumbnails.default.url", "thumbnails.default.width", "thumbnails.default.height", "thumbnails.medium.url", "thumbnails.high.url", "thumbnails.maxres.url",
		},
		"contentDetails":              {"dimension", "definition", "caption", "licensedContent", "contentRating", "projection"},
		"statistics":                  {"viewCount", "favoriteCount"},
		"status":                      {"uploadStatus", "privacyStatus", "license", "embeddable", "publicStatsViewable", "madeForKids"},
		"player":                      {"embedHtml"},
		"topicDetails":                {"topicCategories"},
		"recordingDetails":            {},
		"liveStreamingDetails":        nil, // not of every video
		"localizations":               nil,
		"paidProductPlacementDetails": {"hasPaidProductPlacement"},
	},
	"search": {
		"id":      {"kind"},
		"snippet": {"publishedAt", "channelId", "title", "description", "thumbnails.default.url", "thumbnails.high.url", "channelTitle", "liveBroadcastContent"},
	},
	"channels": {
		"id": {},
		"snippet": {
			"title", "description", "customUrl", "publishedAt", "localized.title", "localized.description",
			"thumbnails.default.url", "thumbnails.medium.url", "thumbnails.high.url",
		},
		"contentDetails":   {"relatedPlaylists.uploads", "relatedPlaylists.likes"},
		"statistics":       {"viewCount", "hiddenSubscriberCount", "videoCount"},
		"topicDetails":     {"topicCategories"},
		"status":           {"privacyStatus", "isLinked", "longUploadsStatus", "madeForKids"},
		"brandingSettings": {"channel.title", "channel.description", "channel.keywords"},
		"localizations":    nil,
	},
	"playlistItems": {
		"id": {},
		"snippet": {
			"publishedAt", "channelId", "title", "description", "thumbnails.default.url", "channelTitle", "playlistId", "position",
			"resourceId.kind", "resourceId.videoId", "videoOwnerChannelId", "videoOwnerChannelTitle",
		},
		"contentDetails": {"videoId", "videoPublishedAt"},
		"status":         {"privacyStatus"},
	},
	"videos:batchGetStats": {
		"id": {}, "snippet": {"publishTime"}, "statistics": {"viewCount"}, "contentDetails": {},
	},
}

// has finds a dotted path in an object.
func has(value any, path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return false
		}
		if value, ok = object[name]; !ok {
			return false
		}
	}
	return true
}

// missing are the fields that a list or its items lack.
func missing(path string, asked []string, answer map[string]any) (all []string) {
	always := []string{"kind", "etag"}
	if path != "videos:batchGetStats" {
		always = append(always, "pageInfo.totalResults", "pageInfo.resultsPerPage")
	}
	for _, p := range always {
		if !has(answer, p) {
			all = append(all, p)
		}
	}
	items, _ := answer["items"].([]any)
	for i, item := range items {
		object, _ := item.(map[string]any)
		for _, p := range []string{"kind", "etag", "id"} {
			if !has(item, p) {
				all = append(all, fmt.Sprintf("items[%d].%s", i, p))
			}
		}
		for _, part := range asked {
			for _, p := range parts[path][part] {
				if !has(item, part+"."+p) {
					all = append(all, fmt.Sprintf("items[%d].%s.%s", i, part, p))
				}
			}
			if parts[path][part] != nil && !has(item, part) {
				all = append(all, fmt.Sprintf("items[%d].%s", i, part))
			}
		}
		for name := range object {
			if name != "kind" && name != "etag" && name != "id" && !slices.Contains(asked, name) {
				all = append(all, fmt.Sprintf("items[%d].%s was not asked for", i, name))
			}
		}
	}
	return all
}

func allParts(path string) (all []string) {
	for part := range parts[path] {
		all = append(all, part)
	}
	slices.Sort(all)
	return all
}

// TestAnswersKeepTheSchemas asks every method in many ways, at many times.
func TestAnswersKeepTheSchemas(t *testing.T) {
	d := discovery(t)
	responses := map[string]string{}
	for _, r := range d.Resources {
		for _, m := range r.Methods {
			if m.HTTPMethod == http.MethodGet {
				responses[strings.TrimPrefix(m.Path, "youtube/v3/")] = m.Response.Ref
			}
		}
	}
	now := at(noon)
	sim := youtubesim.New(&youtubesim.Options{Seed: 7, Clock: now.Now, Quota: youtubesim.Quota{youtubesim.SearchList: 1000}})
	items := map[string]int{}
	ask := func(path string, p url.Values, asked []string) []any {
		t.Helper()
		p = with(p, "part", strings.Join(asked, ","))
		r := get(sim, path, p)
		if r.Code != http.StatusOK {
			t.Fatalf("%s %v: %d\n%s", path, p, r.Code, r.Body)
		}
		var answer map[string]any
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s %v: %v", path, p, err)
		}
		for _, f := range d.faults(&schema{Ref: responses[path]}, answer, path) {
			t.Error(f)
		}
		for _, f := range missing(path, asked, answer) {
			t.Errorf("%s %v: %s", path, p, f)
		}
		list, _ := answer["items"].([]any)
		items[path] += len(list)
		return list
	}
	ids := func(list []any, name string) (all []string) {
		for _, item := range list {
			if id, ok := item.(map[string]any)[name].(string); ok {
				all = append(all, id)
			}
		}
		return all
	}
	for _, region := range []string{"US", "IN", "JP", "EG", "TH"} {
		for _, category := range []string{"0", "10", "20"} {
			now.advance(7 * time.Hour)
			p := params("chart", "mostPopular", "regionCode", region, "videoCategoryId", category, "maxResults", "50")
			videos := ids(ask("videos", p, allParts("videos")), "id")
			ask("videos", params("id", strings.Join(videos, ",")), []string{"snippet", "statistics"})
			ask("videos:batchGetStats", params("id", strings.Join(videos, ",")), allParts("videos:batchGetStats")[:3])
			ask("videos:batchGetStats", params("id", strings.Join(videos, ",")), []string{"contentDetails"})
		}
		for _, order := range []string{"date", "rating", "relevance", "title", "viewCount"} {
			found := ask("search", params("q", "新聞 news", "order", order, "regionCode", region, "maxResults", "50"), []string{"snippet"})
			var persons []string
			for _, item := range found {
				if id, _ := item.(map[string]any)["id"].(map[string]any); id["kind"] == "youtube#channel" {
					persons = append(persons, id["channelId"].(string))
				}
			}
			if len(persons) == 0 {
				continue
			}
			for i, c := range ask("channels", params("id", strings.Join(persons, ",")), allParts("channels")) {
				uploads := c.(map[string]any)["contentDetails"].(map[string]any)["relatedPlaylists"].(map[string]any)["uploads"].(string)
				if i < 3 {
					ask("playlistItems", params("playlistId", uploads, "maxResults", "50"), allParts("playlistItems"))
				}
			}
		}
	}
	for path := range parts {
		if items[path] < 50 {
			t.Errorf("%s: only %d items were seen", path, items[path])
		}
	}
}

// TestPartsAreThoseOfTheResource: what a resource has is simulated, or for owners,
// or left out on purpose.
func TestPartsAreThoseOfTheResource(t *testing.T) {
	d := discovery(t)
	unheardOf := map[string][]string{
		"Video":   {"ageGating", "brandPartner", "monetizationDetails", "projectDetails"},
		"Channel": {"conversionPings"},
	}
	sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now})
	for path, resource := range map[string]string{"videos": "Video", "channels": "Channel", "playlistItems": "PlaylistItem", "search": "SearchResult", "videos:batchGetStats": "VideoStat"} {
		for part := range d.Schemas[resource].Properties {
			if part == "kind" || part == "etag" {
				continue
			}
			r := get(sim, path, params("part", part))
			unknown := strings.Contains(r.Body.String(), "unknownPart")
			owners := strings.Contains(r.Body.String(), "only the owner")
			_, simulated := parts[path][part]
			if unknown != slices.Contains(unheardOf[resource], part) || !unknown && simulated == owners {
				t.Errorf("%s of %s: unknown %t, for owners %t, in the test's table %t", part, resource, unknown, owners, simulated)
			}
		}
	}
}

// TestParametersAreThoseOfTheMethod: each documented one is taken, no other is.
func TestParametersAreThoseOfTheMethod(t *testing.T) {
	d := discovery(t)
	sim := youtubesim.New(&youtubesim.Options{Clock: at(noon).Now})
	const unknown = "Cannot bind query parameter"
	for path := range parts {
		for _, r := range d.Resources {
			for _, m := range r.Methods {
				if m.Path != "youtube/v3/"+path || m.HTTPMethod != http.MethodGet {
					continue
				}
				for _, list := range []map[string]any{d.Parameters, m.Parameters} {
					for name := range list {
						if r := get(sim, path, params("part", "id", name, "x")); strings.Contains(r.Body.String(), unknown) {
							t.Errorf("%s does not take %s", path, name)
						}
					}
				}
			}
		}
		if r := get(sim, path, params("part", "id", "regioncode", "US")); r.Code != 400 || !strings.Contains(r.Body.String(), unknown) {
			t.Errorf("%s takes regioncode: %d", path, r.Code)
		}
	}
}
