// Package youtubesim is an upstream that behaves like the YouTube Data API v3, so
// that a program which spends its quota can be tried without spending any. [New]
// returns an http.Handler:
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
// the documented errors of parameters. Anything else is answered 501, which the
// real one does not do, and costs nothing.
//
// # Data
//
// All of it is computed from the seed, the id and the clock; nothing is stored.
// Two simulators with the same seed give the same answer to the same request at
// the same time, also in different processes, and every id that was ever given out
// is found again. As time goes on, channels upload, charts move every hour, counts
// grow by the minute, premieres and streams begin and end, and one video in 40
// vanishes. A page token pins what its walk began with. Titles come in 18
// languages; in search results only, they are HTML-escaped, as they are there.
//
// A search finds what is about the topic whose word (in any language) the query
// holds, and any other query has a topic by itself. With order=date it misses
// nothing that was published from publishedAfter to publishedBefore, both included,
// unless that is more than 500.
//
// # Quota
//
// Each request that reaches a method costs: 1, or in the generation [OnePool] 100
// for a search; invalid requests and 304 too. What is refused for quota costs
// nothing, and neither do requests without a valid key. The day is the calendar
// day of California, by the injected clock. Whom a request is charged to is said
// by its key, in X-Goog-Api-Key or key=.
//
// # Not simulated
//
// OAuth and all that needs it (myRating, mine, owners' parts: 401 or 403), writes,
// uploads (videos.insert is charged, and answered 401), gzip, JSONP, limits per minute (a [Fault] with the refusal
// [PerMinute] stands for them), hl, and these filters of search.list, which are
// accepted and ignored: location, topicId, relevanceLanguage, safeSearch, and those
// of videos other than videoCategoryId and eventType. A search of type playlist
// finds none.
//
// The shapes of [QuotaExceeded], [DailyLimitExceeded], [PerDay], [PerDayBare],
// [KeyInvalid], [KeyInvalidOld] and [KeyBlocked] are those of real answers, but the
// names of the metric and limit of video_batch_get_stats, and those of [PerMinute],
// are assumed. Of the parameter errors the reasons are documented; their messages
// are partly made up.
package youtubesim
