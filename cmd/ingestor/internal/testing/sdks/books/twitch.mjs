import assert from "node:assert/strict";
import { ApiClient } from "@twurple/api";
import { HttpStatusCodeError } from "@twurple/api-call";
import { pages } from "../upstream.mjs";

// twurple has no setting for its base URL. A program changes fetch. Providers of @twurple/auth check
// the token at id.twitch.tv, so this one is its own.
const fetched = globalThis.fetch;
let fetches = 0;
const connect = (base, token) => {
  globalThis.fetch = (url, init) => ++fetches && fetched(String(url).replace("https://api.twitch.tv", `${base}/twitch`), init);
  const accessToken = async () => ({ accessToken: token, scope: [], refreshToken: null, expiresIn: null, obtainmentTimestamp: Date.now(), userId: "1" });
  return new ApiClient({ authProvider: { clientId: "client", getCurrentScopesForUser: () => [], getAnyAccessToken: accessToken, getAccessTokenForUser: accessToken, getAppAccessToken: accessToken } });
};
const headers = { "ratelimit-limit": "800", "ratelimit-remaining": "799", "ratelimit-reset": String(Math.floor(Date.now() / 1000) + 1) };
const list = (make) => pages("after", (page, next) => ({ headers, body: { data: [make(String(page))], pagination: next ? { cursor: next } : {} } }));
const one = (body, status = 200) => () => ({ status, headers, body });
const user = (id) => ({ id, login: "l", display_name: "L", created_at: "2026-01-01T00:00:00Z" });

export default {
  sdk: "@twurple/api",
  hosts: ["api.twitch.tv"],
  key: ["authorization", "Bearer the-real-key-of-twitch"],
  base: "no setting; changes fetch, and has its own AuthProvider",
  answers: [
    ["GET /helix/users", one({ data: [user("1")] })],
    ["GET /helix/streams", list((id) => ({ id }))],
    ["GET /helix/games/top", list((id) => ({ id }))],
    ["GET /helix/games", one({ data: [{ id: "1", name: "g" }] })],
    ["GET /helix/videos", list((id) => ({ id }))],
    ["GET /helix/clips", list((id) => ({ id }))],
    ["GET /helix/search/channels", list((id) => ({ id }))],
    ["GET /helix/channels", one({ data: [{ broadcaster_id: "1", title: "t" }] })],
    ["GET /helix/channels/followers", pages("after", (page, next) => ({ headers, body: { total: 3, data: [{ user_id: String(page) }], pagination: next ? { cursor: next } : {} } }))],
    ["PATCH /helix/channels", one(undefined, 204)],
    ["POST /helix/chat/messages", one({ data: [{ message_id: "m", is_sent: true }] })],
    ["GET /helix/eventsub/subscriptions", one({ data: [], total: 0, total_cost: 0, max_total_cost: 10, pagination: {} })],
  ],
  calls(base, token) {
    const api = connect(base, token);
    const list = (what, make) => [what, 3, async () => assert.equal((await make().getAll()).length, 3)];
    return [
      ["users.getUserByName", 1, async () => assert.equal((await api.users.getUserByName("l")).id, "1")],
      list("streams.getStreamsPaginated", () => api.streams.getStreamsPaginated()),
      list("games.getTopGamesPaginated", () => api.games.getTopGamesPaginated()),
      ["games.getGameByName", 1, async () => assert.equal((await api.games.getGameByName("g")).id, "1")],
      list("videos.getVideosByUserPaginated", () => api.videos.getVideosByUserPaginated("1")),
      list("clips.getClipsForBroadcasterPaginated", () => api.clips.getClipsForBroadcasterPaginated("1")),
      list("search.searchChannelsPaginated", () => api.search.searchChannelsPaginated("x")),
      ["channels.getChannelInfoById", 1, async () => assert.equal((await api.channels.getChannelInfoById("1")).title, "t")],
      list("channels.getChannelFollowersPaginated", () => api.channels.getChannelFollowersPaginated("1")),
      ["channels.updateChannelInfo", 1, async () => api.channels.updateChannelInfo("1", { title: "t" })],
      ["chat.sendChatMessage", 1, async () => assert.ok((await api.asUser("1", (ctx) => ctx.chat.sendChatMessage("1", "hello"))).isSent)],
      ["eventSub.getSubscriptions", 1, async () => assert.equal((await api.eventSub.getSubscriptions()).data.length, 0)],
    ];
  },
  refusal: {
    // twurple makes an error of a refusal only if points are left. Otherwise it waits until the reset.
    async waits(base, token) {
      fetches = 0;
      assert.equal((await connect(base, token).games.getGameByName("g")).id, "1");
      assert.ok(fetches <= 5, `it has tried ${fetches} times`);
    },
    answer: { status: 429, headers: { ...headers, "ratelimit-remaining": "1" }, body: { error: "Too Many Requests", status: 429, message: "Too Many Requests" } },
    call: (base, token) => connect(base, token).games.getGameByName("g"),
    check(error) {
      assert.ok(error instanceof HttpStatusCodeError, error.stack);
      assert.equal(error.statusCode, 429);
    },
  },
};
