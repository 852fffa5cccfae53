import assert from "node:assert/strict";
import snoowrap from "snoowrap";

// snoowrap has no setting for its base URL. A program wraps the function that makes its requests.
const connect = (base, token) => {
  const r = new snoowrap({ userAgent: "headroom", accessToken: token });
  r.config({ requestDelay: 0, warnings: false, maxRetryAttempts: 1 });
  r._nextRequestTimestamp = -1;
  const request = r.rawRequest.bind(r);
  r.rawRequest = (options) => request({ ...options, baseUrl: `${base}/reddit` });
  return r;
};
const headers = { "x-ratelimit-remaining": "590.0", "x-ratelimit-used": "10", "x-ratelimit-reset": "300" };
const post = (id) => ({ kind: "t3", data: { id, name: `t3_${id}`, title: "t", replies: "" } });
const listing = (call) => {
  const page = Number(/\d$/.exec(call.query.get("after") ?? "1")[0]);
  return { headers, body: { kind: "Listing", data: { after: page < 3 ? `t3_${page + 1}` : null, before: null, children: [post(String(page))] } } };
};
const done = () => ({ headers, body: { json: { errors: [], data: { things: [post("9")], name: "t3_9", id: "9" } } } });

export default {
  sdk: "snoowrap",
  hosts: ["oauth.reddit.com"],
  key: ["authorization", "Bearer the-real-key-of-reddit"],
  base: "no setting; wraps rawRequest",
  answers: [
    ["GET /api/v1/me", () => ({ headers, body: { name: "me" } })],
    ["GET /(r/golang/)?(hot|new|top)", listing],
    ["GET /r/golang/search", listing],
    ["GET /(subreddits/mine/subscriber|user/spez/submitted|message/inbox)", listing],
    ["GET /(r/golang/about|user/spez/about)", () => ({ headers, body: { kind: "t5", data: { display_name: "golang", name: "t2_a" } } })],
    ["GET /comments/abc", () => ({ headers, body: [{ kind: "Listing", data: { children: [post("abc")] } }, { kind: "Listing", data: { children: [] } }] })],
    ["POST /api/(comment|submit)", done],
    ["POST /api/vote", () => ({ headers, body: {} })],
  ],
  calls(base, token) {
    const r = connect(base, token);
    const list = (what, first) => [what, 3, async () => {
      let page = await first();
      while (!page.isFinished) page = await page.fetchMore({ amount: 1, append: true });
      assert.equal(page.length, 3);
    }];
    return [
      ["getMe", 1, async () => assert.equal((await r.getMe()).name, "me")],
      list("getHot", () => r.getHot("golang", { limit: 1 })),
      list("getNew", () => r.getSubreddit("golang").getNew({ limit: 1 })),
      list("getTop", () => r.getTop("golang", { limit: 1 })),
      list("search", () => r.getSubreddit("golang").search({ query: "x", limit: 1 })),
      list("getSubscriptions", () => r.getSubscriptions({ limit: 1 })),
      ["getSubreddit.fetch", 1, async () => assert.ok(await r.getSubreddit("golang").fetch())],
      ["getSubmission.fetch", 1, async () => assert.equal((await r.getSubmission("abc").fetch()).id, "abc")],
      ["getUser.fetch", 1, async () => assert.ok(await r.getUser("spez").fetch())],
      ["submitSelfpost", 1, async () => assert.ok(await r.submitSelfpost({ subredditName: "golang", title: "t", text: "x" }))],
      ["reply", 1, async () => assert.ok(await r.getSubmission("abc").reply("hello"))],
      ["upvote", 1, async () => r.getSubmission("abc").upvote()],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { ...headers, "x-ratelimit-remaining": "0.0" }, body: { message: "Too Many Requests", error: 429 } },
    call: (base, token) => connect(base, token).getMe(),
    check: (error) => assert.deepEqual([error.name, error.statusCode], ["StatusCodeError", 429], error.stack),
  },
};
