package youtubesim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func decode(t *testing.T, r *httptest.ResponseRecorder, into any) {
	t.Helper()
	if err := json.Unmarshal(r.Body.Bytes(), into); err != nil {
		t.Fatalf("%v\n%s", err, r.Body)
	}
}

// TestParameterErrors: what is wrong, and where, in the form of real errors.
func TestParameterErrors(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.SearchList: 1000}})
	token := fetch(t, sim, "videos", chart).NextPageToken
	var many []string
	for i := range 51 {
		many = append(many, "id"+strings.Repeat("x", i))
	}
	for _, c := range []struct {
		name, path string
		params     url.Values
		code       int
		reason     string
		location   string
	}{
		{"no part", "videos", params("chart", "mostPopular"), 400, "missingRequiredParameter", "part"},
		{"unknown part", "videos", params("part", "snippet,nonsense", "chart", "mostPopular"), 400, "unknownPart", "part"},
		{"an owner's part", "videos", params("part", "fileDetails", "chart", "mostPopular"), 403, "forbidden", "part"},
		{"no filter", "videos", params("part", "snippet"), 400, "missingRequiredParameter", "parameters."},
		{"no filter of channels", "channels", params("part", "snippet"), 400, "missingRequiredParameter", "parameters."},
		{"no filter of playlist items", "playlistItems", params("part", "snippet"), 400, "missingRequiredParameter", "parameters."},
		{"no ids", "videos:batchGetStats", params("part", "statistics"), 400, "missingRequiredParameter", "id"},
		{"two filters", "videos", with(chart, "id", "x"), 400, "incompatibleParameters", "parameters."},
		{"maxResults with ids", "videos", params("part", "id", "id", "x", "maxResults", "50"), 400, "incompatibleParameters", "parameters."},
		{"pageToken with ids", "videos", params("part", "id", "id", "x", "pageToken", token), 400, "incompatibleParameters", "parameters."},
		{"regionCode with ids", "videos", params("part", "id", "id", "x", "regionCode", "US"), 400, "incompatibleParameters", "parameters."},
		{"51 ids", "videos", params("part", "id", "id", strings.Join(many, ",")), 400, "invalidFilters", "id"},
		{"51 ids", "videos:batchGetStats", params("part", "id", "id", strings.Join(many, ",")), 400, "invalidFilters", "id"},
		{"what needs a login", "videos", params("part", "id", "myRating", "like"), 401, "required", "Authorization"},
		{"what needs a login", "channels", params("part", "id", "mine", "true"), 401, "required", "Authorization"},
		{"maxResults of 51", "videos", with(chart, "maxResults", "51"), 400, "invalidParameter", "maxResults"},
		{"maxResults of 0", "videos", with(chart, "maxResults", "0"), 400, "invalidParameter", "maxResults"},
		{"maxResults of 51", "search", params("part", "snippet", "maxResults", "51"), 400, "invalidParameter", "maxResults"},
		{"maxResults of many", "search", params("part", "snippet", "maxResults", "many"), 400, "invalidParameter", "maxResults"},
		{"a chart that never was", "videos", with(chart, "chart", "leastPopular"), 400, "invalidParameter", "chart"},
		{"an invalid region", "videos", with(chart, "regionCode", "XX"), 400, "invalidRegionCode", "regionCode"},
		{"an invalid region", "search", params("part", "snippet", "regionCode", "Germany"), 400, "invalidRegionCode", "regionCode"},
		{"an invalid category", "videos", with(chart, "videoCategoryId", "99"), 400, "invalidCategoryId", "videoCategoryId"},
		{"a token that was made up", "videos", with(chart, "pageToken", "CDIQAA"), 400, "invalidPageToken", "pageToken"},
		{"a token of another region", "videos", with(chart, "pageToken", token, "regionCode", "US"), 400, "invalidPageToken", "pageToken"},
		{"a token of another method", "search", params("part", "snippet", "pageToken", token), 400, "invalidPageToken", "pageToken"},
		{"no such playlist", "playlistItems", params("part", "snippet", "playlistId", "UUxxxxxxxxxxxxxxxxxxxxxx"), 404, "playlistNotFound", "playlistId"},
		{"no such channel", "search", params("part", "snippet", "channelId", "UCxxxxxxxxxxxxxxxxxxxxxx"), 400, "invalidChannelId", "channelId"},
		{"an invalid time", "search", params("part", "snippet", "publishedAfter", "yesterday"), 400, "invalidParameter", "publishedAfter"},
		{"an unknown order", "search", params("part", "snippet", "order", "newest"), 400, "invalidParameter", "order"},
		{"a filter of videos without their type", "search", params("part", "snippet", "videoDuration", "short"), 400, "invalidSearchFilter", "type"},
		{"an unknown parameter", "videos", with(chart, "region", "US"), 400, "badRequest", ""},
		{"fields that are none", "videos", with(chart, "fields", "items(id,snipet)"), 400, "invalidParameter", "fields"},
		{"fields that do not end", "videos", with(chart, "fields", "items(id,snippet(title)"), 400, "invalidParameter", "fields"},
		{"another method", "captions", params("part", "id"), 501, "notSimulated", ""},
	} {
		t.Run(c.path+" "+c.name, func(t *testing.T) {
			r := get(sim, c.path, c.params)
			var got struct {
				Error struct {
					Code    int
					Message string
					Errors  []struct{ Message, Domain, Reason, Location, LocationType string }
				}
			}
			decode(t, r, &got)
			e := got.Error
			if r.Code != c.code || e.Code != c.code || len(e.Errors) != 1 || e.Errors[0].Reason != c.reason || e.Errors[0].Location != c.location || e.Errors[0].Message != e.Message || e.Message == "" || e.Errors[0].Domain == "" {
				t.Errorf("want %d %s at %q:\n%s", c.code, c.reason, c.location, r.Body)
			}
		})
	}
}

// Lists may be repeated or hold commas; what is asked for twice comes once.
func TestListsOfValues(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now})
	ids := fetch(t, sim, "videos", chart).ids()[:3]
	commas := fetch(t, sim, "videos", params("part", "snippet,statistics", "id", strings.Join(ids, ",")))
	repeated := fetch(t, sim, "videos", params("part", "snippet", "part", "statistics", "id", ids[0], "id", ids[1], "id", ids[2], "id", ids[0], "id", "aaaaaaaaaaa"))
	if !slices.Equal(commas.ids(), ids) || !slices.Equal(repeated.ids(), ids) || repeated.Items[0].Statistics == nil {
		t.Errorf("%v, %v, want %v", commas.ids(), repeated.ids(), ids)
	}
}

func TestFields(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now})
	for fields, want := range map[string]string{
		"kind":                          `{"kind":"youtube#videoListResponse"}`,
		"pageInfo/totalResults":         `{"pageInfo":{"totalResults":TOTAL}}`,
		"pageInfo":                      `{"pageInfo":{"totalResults":TOTAL,"resultsPerPage":1}}`,
		"pageInfo(resultsPerPage),kind": `{"kind":"youtube#videoListResponse","pageInfo":{"resultsPerPage":1}}`,
		"items(id)":                     `{"items":[{"id":"ID"}]}`,
		"items/id":                      `{"items":[{"id":"ID"}]}`,
		"items(id,snippet(categoryId,thumbnails/default/width))": `{"items":[{"id":"ID","snippet":{"thumbnails":{"default":{"width":120}},"categoryId":"CATEGORY"}}]}`,
		"items(snippet(thumbnails(*(height))))":                  `{"items":[{"snippet":{"thumbnails":{"default":{"height":90},"medium":{"height":180},"high":{"height":360},"standard":{"height":480},"maxres":{"height":720}}}}]}`,
		"items(id,snippet/categoryId),items/kind":                `{"items":[{"kind":"youtube#video","id":"ID","snippet":{"categoryId":"CATEGORY"}}]}`,
	} {
		p := with(chart, "maxResults", "1", "prettyPrint", "false")
		var whole struct {
			PageInfo struct{ TotalResults json.Number }
			Items    []struct {
				ID      string
				Snippet struct{ CategoryID string }
			}
		}
		decode(t, get(sim, "videos", p), &whole)
		want = strings.NewReplacer("TOTAL", whole.PageInfo.TotalResults.String(), "ID", whole.Items[0].ID, "CATEGORY", whole.Items[0].Snippet.CategoryID).Replace(want)
		if got := get(sim, "videos", with(p, "fields", fields)).Body.String(); got != want {
			t.Errorf("%s\n got %s\nwant %s", fields, got, want)
		}
	}
}

// ETags tell versions apart: those of the answer and those of its items.
func TestETags(t *testing.T) {
	now := at(noon)
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: now.Now})
	first := get(sim, "videos", chart)
	tag := first.Header().Get("Etag")
	var l list
	decode(t, first, &l)
	if tag != `"`+l.Etag+`"` || len(l.Etag) < 16 {
		t.Fatalf("header %s, body %s", tag, l.Etag)
	}
	for _, given := range []string{tag, l.Etag, "W/" + tag, `"other", ` + tag, "*"} {
		if r := get(sim, "videos", chart, "If-None-Match", given); r.Code != 304 || r.Body.Len() != 0 {
			t.Errorf("If-None-Match: %s: %d, %d bytes", given, r.Code, r.Body.Len())
		}
	}
	if r := get(sim, "videos", chart, "If-None-Match", `"other"`); r.Code != 200 {
		t.Errorf("another tag: %d", r.Code)
	}
	if r := get(sim, "videos", with(chart, "regionCode", "US"), "If-None-Match", tag); r.Code != 200 {
		t.Errorf("another region: %d", r.Code)
	}
	now.set(noon.Add(3600e9))
	if r := get(sim, "videos", chart, "If-None-Match", tag); r.Code != 200 {
		t.Errorf("an hour later: %d", r.Code)
	}
}

// A misspelt field is an error, and so each name that answers use must be known.
func TestFieldsKnowEveryName(t *testing.T) {
	d := discovery(t)
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.Default: 100_000}})
	names := map[string]bool{}
	for _, s := range d.Schemas {
		for name := range s.Properties {
			names[name] = true
		}
	}
	accepted := func(name string) bool {
		return get(sim, "videos", params("part", "id", "id", "x", "fields", name)).Code == http.StatusOK
	}
	for name := range names {
		if accepted(name+"x") && !names[name+"x"] {
			t.Errorf("%sx is taken", name)
		}
	}
	var used func(value any)
	used = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, one := range v {
				used(one)
			}
		case map[string]any:
			for name, one := range v {
				if names[name] && !accepted(name) {
					t.Errorf("%s is not taken", name)
				}
				if name != "localizations" {
					used(one)
				}
			}
		}
	}
	for path, p := range map[string]url.Values{
		"videos": with(chart, "maxResults", "20"), "search": params("q", "song", "maxResults", "20"),
		"channels": params("id", fetch(t, sim, "videos", chart).Items[0].Snippet.ChannelID),
	} {
		var answer any
		decode(t, get(sim, path, with(p, "part", strings.Join(allParts(path), ","))), &answer)
		used(answer)
	}
}
