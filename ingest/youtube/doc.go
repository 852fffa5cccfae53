// Package youtube fetches pages for the catalog from the YouTube Data API, through
// Google's SDK. All calls go through the http.Client of the caller. It reserves units, waits,
// and adds the key. A page takes one call, and the first page of a channel's uploads takes
// two. The package never retries; [Temporary] reports whether a retry makes sense.
//
// The package corrects what the upstream is known to misreport:
//
//   - The answer leaves out a hidden number, and the SDK then reports 0. The package reads
//     the answer a second time, and the catalog has nil.
//   - Titles are escaped for HTML in search results, and only there.
//   - A search ends after about 500 results, even if there are more. The package continues
//     with a search for older videos.
//   - A duration is P0D or missing while a video is live or upcoming.
//   - The answer leaves out deleted and private videos. If such a video was requested by id,
//     it is reported as gone.
//   - A missing chart is an error of the upstream, and an empty chart here.
//   - A proxy may answer 200 with JSON of its own. That is an error here. As an empty list it
//     would empty charts, and delete videos that were requested by id.
package youtube
