// Package youtube fetches pages for the catalog from the YouTube Data API, through
// Google's SDK. Only the http.Client that it is given makes calls, one for each
// page and two for the first of a channel's uploads: whoever reserves units, waits
// and knows the key is in there. Nothing is tried again here; whether it is worth
// while, [Temporary] says.
//
// How the upstream is known to lie, and what becomes of it:
//
//   - A number that is hidden is left out of the answer, and the SDK then says 0.
//     It is nil in the catalog: the answer is read a second time.
//   - Titles are escaped for HTML in search results, and only there.
//   - A search ends after about 500 results, whatever there is. It goes on here
//     with what is older.
//   - A duration is P0D or missing while a video is live or still to come.
//   - Videos that are deleted or private are left out without a word: those that
//     were asked for by id are gone.
//   - A chart that is missing is an error there, and an empty chart here.
//   - What stands between may answer 200 with JSON of its own. That is an error: as an
//     empty list it would empty charts, and delete what was asked for by id.
package youtube
