// Package youtubesim simulates the YouTube Data API v3, so that you can try a program without
// spending real quota. [New] returns an http.Handler:
//
//	sim := youtubesim.New(&youtubesim.Options{Seed: 1, Clock: clock.Now})
//	server := httptest.NewServer(sim)
//	service, err := youtube.NewService(ctx, option.WithEndpoint(server.URL+"/"), option.WithAPIKey("any"))
//	...
//	sim.Counts().Where(youtubesim.Count{Pool: youtubesim.SearchList}).Total().Refused
//
// # Methods
//
// videos.list (by chart and by id), videos.batchGetStats, search.list,
// channels.list (by id and by handle) and playlistItems.list (of uploads), with
// part, fields, maxResults, page tokens, ETag and If-None-Match, prettyPrint, and
// the documented errors of parameters. Anything else gets status 501, which the real API
// never sends, and costs nothing.
//
// # Data
//
// All data is computed from the seed, the id and the clock. Nothing is stored. Two
// simulators with the same seed give the same answer to the same request at the same time,
// even in different processes, and every id stays valid. Over time channels upload, charts
// change every hour, counts grow every minute, premieres and streams start and end, and one
// video in 40 disappears. A page token pins the state of its walk. Titles are in 18
// languages. In search results they are HTML-escaped, as in the real API.
//
// A search finds videos about a topic whose word, in any language, is in the query. Any
// other query has a topic of its own. With order=date it finds every video from
// publishedAfter to publishedBefore, both included, up to 500.
//
// # Quota
//
// Each request that reaches a method costs 1 unit, or 100 for a search in the generation
// [OnePool]. Invalid requests and status 304 cost as much. Requests that are refused for
// quota, or have no valid key, cost nothing. The day is the calendar day of California, by
// the injected clock. The key, in X-Goog-Api-Key or key=, says which project pays.
//
// # Not simulated
//
// OAuth and everything that needs it (myRating, mine, owners' parts: 401 or 403), writes,
// uploads (videos.insert is charged and gets 401), gzip, JSONP, limits per minute (use a
// [Fault] with the refusal [PerMinute]), and hl. These filters of search.list are accepted
// and ignored: location, topicId, relevanceLanguage, safeSearch, and those of videos other
// than videoCategoryId and eventType. A search of type playlist finds nothing.
//
// The shapes of [QuotaExceeded], [DailyLimitExceeded], [PerDay], [PerDayBare],
// [KeyInvalid], [KeyInvalidOld] and [KeyBlocked] are those of real answers, but the
// names of the metric and limit of video_batch_get_stats, and those of [PerMinute],
// are assumed. The reasons of parameter errors are documented. Some of their messages are
// invented.
package youtubesim
