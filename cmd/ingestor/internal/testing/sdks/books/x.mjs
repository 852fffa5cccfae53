import assert from "node:assert/strict";
import http from "node:http";
import { ApiError, Client, PostPaginator, UserPaginator } from "@xdevplatform/xdk";
import { ApiResponseError, TwitterApi } from "twitter-api-v2";
import { pages } from "../upstream.mjs";

const connect = (base, token) => new Client({ accessToken: token, bearerToken: token, baseUrl: `${base}/x` });
const headers = { "x-rate-limit-limit": "450", "x-rate-limit-remaining": "440", "x-rate-limit-reset": String(Math.floor(Date.now() / 1000) + 900) };
const list = (cursor) => pages(cursor, (page, next) => ({ headers, body: { data: [{ id: String(page), text: "t" }], meta: { result_count: 1, next_token: next } } }));
const one = (data) => () => ({ headers, body: { data } });

// twitter-api-v2 has no setting for its base URL. A plugin changes the address of each call, and the agent allows plain HTTP.
const plain = (base, token) => new TwitterApi(token, {
  httpAgent: new http.Agent(),
  plugins: [{ onBeforeRequest: ({ computedParams }) => { computedParams.url.href = `${base}/x${computedParams.url.pathname}${computedParams.url.search}`; } }],
});
const twitterApi = {
  sdk: "twitter-api-v2",
  base: "a plugin",
  calls(base, token) {
    const client = plain(base, token).v2;
    const list = (what, fetch) => [what, 3, async () => {
      const all = await fetch();
      while (!all.done) await all.fetchNext();
      assert.equal(all.data.data.length, 3);
    }];
    return [
      ["me", 1, async () => assert.equal((await client.me()).data.id, "1")],
      ["userByUsername", 1, async () => assert.equal((await client.userByUsername("l")).data.id, "1")],
      list("search", () => client.search("x")),
      list("userTimeline", () => client.userTimeline("1")),
      list("userMentionTimeline", () => client.userMentionTimeline("1")),
      list("followers", () => client.followers("1", { asPaginator: true })),
      list("following", () => client.following("1", { asPaginator: true })),
      ["tweets", 1, async () => assert.equal((await client.tweets(["1"])).data.length, 1)],
      ["tweet", 1, async () => assert.equal((await client.tweet("hello")).data.id, "2")],
      ["deleteTweet", 1, async () => assert.ok((await client.deleteTweet("2")).data.deleted)],
      ["like", 1, async () => assert.ok((await client.like("1", "1")).data.liked)],
    ];
  },
  get refusal() {
    return {
      answer: x.refusal.answer, call: (base, token) => plain(base, token).v2.tweets(["1"]),
      check(error) {
        assert.ok(error instanceof ApiResponseError, error.stack);
        assert.equal(error.code, 429);
      },
    };
  },
};

const x = {
  sdk: "@xdevplatform/xdk",
  hosts: ["api.x.com", "api.twitter.com"],
  key: ["authorization", "Bearer the-real-key-of-x"],
  answers: [
    ["GET /2/tweets/search/recent", list((call) => call.query.get("next_token") ?? call.query.get("pagination_token"))],
    ["GET /2/users/1/(tweets|mentions|followers|following|timelines/reverse_chronological)", list("pagination_token")],
    ["GET /2/tweets/1", one({ id: "1" })],
    ["GET /2/tweets", one([{ id: "1" }])],
    ["GET /2/users/me", one({ id: "1" })],
    ["GET /2/users/by/username/l", one({ id: "1" })],
    ["POST /2/tweets", one({ id: "2" })],
    ["DELETE /2/tweets/2", one({ deleted: true })],
    ["POST /2/users/1/likes", one({ liked: true })],
    ["POST /2/media/upload", one({ id: "m" })],
    ["GET /2/tweets/search/stream", () => ({ headers: { ...headers, "content-type": "application/json" }, pause: 100, stream: ['{"data":{"id":"1"}}\r\n', '{"data":{"id":"2"}}\r\n', "\r\n"] })],
  ],
  calls(base, token) {
    const client = connect(base, token);
    const list = (what, Paginator, fetch) => [what, 3, async () => {
      const all = new Paginator(fetch);
      await all.fetchNext();
      while (!all.done) await all.fetchNext();
      assert.equal(all.items.length, 3);
    }];
    return [
      ["users.getMe", 1, async () => assert.equal((await client.users.getMe()).data.id, "1")],
      ["users.getByUsername", 1, async () => assert.equal((await client.users.getByUsername("l")).data.id, "1")],
      list("posts.searchRecent", PostPaginator, (nextToken) => client.posts.searchRecent("x", { maxResults: 10, nextToken })),
      list("users.getPosts", PostPaginator, (paginationToken) => client.users.getPosts("1", { paginationToken })),
      list("users.getMentions", PostPaginator, (paginationToken) => client.users.getMentions("1", { paginationToken })),
      list("users.getFollowers", UserPaginator, (paginationToken) => client.users.getFollowers("1", { paginationToken })),
      list("users.getFollowing", UserPaginator, (paginationToken) => client.users.getFollowing("1", { paginationToken })),
      ["posts.getById", 1, async () => assert.equal((await client.posts.getById("1")).data.id, "1")],
      ["posts.getByIds", 1, async () => assert.equal((await client.posts.getByIds(["1"])).data.length, 1)],
      ["posts.create", 1, async () => assert.equal((await client.posts.create({ text: "hello" })).data.id, "2")],
      ["posts.delete", 1, async () => assert.ok((await client.posts.delete("2")).data.deleted)],
      ["users.likePost", 1, async () => assert.ok((await client.users.likePost("1", { tweetId: "1" })).data.liked)],
      ["upload: media.upload", 1, async () => assert.equal((await client.media.upload({ media: Buffer.alloc(50000, 65).toString("base64"), mediaCategory: "tweet_image" })).data.id, "m")],
      ["stream.posts, streamed", 1, async () => {
        const stream = await client.stream.posts({ autoReconnect: false });
        const ids = [];
        await new Promise((done) => stream.on("data", (event) => event.data && ids.push(event.data.id) === 2 && done()));
        stream.close();
        assert.deepEqual(ids, ["1", "2"]);
      }],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { ...headers, "x-rate-limit-remaining": "0" }, body: { title: "Too Many Requests", detail: "Too Many Requests", type: "about:blank", status: 429 } },
    call: (base, token) => connect(base, token).posts.getById("1"),
    check(error) {
      assert.ok(error instanceof ApiError, error.stack);
      assert.equal(error.status, 429);
    },
  },
};

export default { ...x, also: [twitterApi] };
