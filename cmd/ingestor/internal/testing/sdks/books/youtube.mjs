import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { google } from "googleapis";
import { pages } from "../upstream.mjs";

const connect = (base, token) => google.youtube({ version: "v3", auth: token, rootUrl: `${base}/youtube/`, retry: false });
const list = pages("pageToken", (page, next) => ({ items: [{ id: String(page) }], nextPageToken: next }));
const part = ["snippet"];

// all follows the pages of a list.
async function all(method, wanted) {
  let n = 0, pageToken;
  do {
    const { data } = await method({ ...wanted, pageToken });
    n += data.items.length;
    pageToken = data.nextPageToken;
  } while (pageToken);
  return n;
}
const resource = { snippet: { title: "t" } };

export default {
  sdk: "googleapis",
  hosts: ["youtube.googleapis.com", "www.googleapis.com"],
  key: ["x-goog-api-key", "AIza-the-real-key-of-youtube"],
  answers: [
    ["GET /youtube/v3/(videos|channels|playlists|playlistItems|commentThreads|comments|activities)", list],
    ["GET /youtube/v3/search", pages("pageToken", (page, next) => ({ items: [{ id: { videoId: String(page) } }], nextPageToken: next }))],
    ["GET /youtube/v3/(videoCategories|captions)", { items: [{ id: "1" }] }],
    ["GET /youtube/v3/captions/c1", () => ({ headers: { "content-type": "application/octet-stream" }, body: "1\n00:00" })],
    ["POST /youtube/v3/playlists", { id: "PL1" }],
    ["POST /upload/youtube/v3/videos", (call) => ({ body: { id: "v1", kind: String(call.body.length > 300000 && /^multipart\/related/.test(call.headers["content-type"])) } })],
    ["POST /upload/youtube/v3/thumbnails/set", { items: [{}] }],
  ],
  calls(base, token) {
    const youtube = connect(base, token);
    const rootUrl = `${base}/youtube/`; // uploads take it from the call only
    const lists = [
      ["search.list", youtube.search, { q: "x" }], ["videos.list", youtube.videos, { chart: "mostPopular" }], ["channels.list", youtube.channels, { mine: true }],
      ["playlists.list", youtube.playlists, { channelId: "c" }], ["playlistItems.list", youtube.playlistItems, { playlistId: "p" }],
      ["commentThreads.list", youtube.commentThreads, { videoId: "v" }], ["comments.list", youtube.comments, { parentId: "p" }], ["activities.list", youtube.activities, { channelId: "c" }],
    ];
    return [
      ...lists.map(([what, resource, wanted]) => [what, 3, async () => assert.equal(await all(resource.list.bind(resource), { part, ...wanted }), 3)]),
      ["videoCategories.list", 1, async () => assert.equal((await youtube.videoCategories.list({ part, regionCode: "DE" })).data.items.length, 1)],
      ["playlists.insert", 1, async () => assert.equal((await youtube.playlists.insert({ part, requestBody: resource })).data.id, "PL1")],
      ["captions.download", 1, async () => assert.ok((await youtube.captions.download({ id: "c1" })).data)],
      ["upload: videos.insert, multipart", 1, async () => assert.equal((await youtube.videos.insert({ part, requestBody: resource, media: { mimeType: "video/mp4", body: Readable.from(Buffer.alloc(400000, 1)) } }, { rootUrl })).data.kind, "true")],
      ["upload: thumbnails.set", 1, async () => assert.equal((await youtube.thumbnails.set({ videoId: "v", media: { mimeType: "image/png", body: Readable.from(Buffer.alloc(1000, 1)) } }, { rootUrl })).data.items.length, 1)],
    ];
  },
  refusal: {
    answer: { status: 403, body: { error: { code: 403, message: "The request cannot be completed because you have exceeded your quota.", errors: [{ message: "exceeded", domain: "youtube.quota", reason: "quotaExceeded" }] } } },
    call: (base, token) => connect(base, token).videos.list({ part, id: ["x"] }),
    check(error) {
      assert.equal(error.constructor.name, "GaxiosError", error.stack);
      assert.ok([403, 429].includes(error.status), `status ${error.status}`);
      assert.match(error.errors?.[0]?.reason ?? error.response.data.error.errors[0].reason, /quotaExceeded|rateLimitExceeded/);
    },
  },
};
