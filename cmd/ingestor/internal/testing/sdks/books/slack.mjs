import assert from "node:assert/strict";
import { ErrorCode, LogLevel, WebClient } from "@slack/web-api";
import { pages } from "../upstream.mjs";

const connect = (base, token) => new WebClient(token, { slackApiUrl: `${base}/slack/api/`, rejectRateLimitedCalls: true, retryConfig: { retries: 0 }, logLevel: LogLevel.ERROR });
const list = (name) => pages((call) => call.form.get("cursor") || call.query.get("cursor"), (page, next) => ({ ok: true, [name]: [{ id: String(page) }], response_metadata: { next_cursor: next ?? "" } }));
const channel = "C1";

export default {
  sdk: "@slack/web-api",
  hosts: ["slack.com", "www.slack.com", "files.slack.com"],
  key: ["authorization", "Bearer xoxb-the-real-key-of-slack"],
  answers: [
    ["POST /api/auth.test", { ok: true, user_id: "U1" }],
    ["POST /api/chat.(postMessage|update)", { ok: true, ts: "1.2" }],
    ["POST /api/conversations.list", list("channels")],
    ["POST /api/conversations.history", list("messages")],
    ["POST /api/conversations.replies", list("messages")],
    ["POST /api/conversations.members", list("members")],
    ["POST /api/users.list", list("members")],
    ["POST /api/users.info", { ok: true, user: { id: "U1" } }],
    ["POST /api/reactions.add", { ok: true }],
    ["POST /api/views.open", { ok: true, view: {} }],
    ["POST /api/files.getUploadURLExternal", { ok: true, upload_url: "https://files.slack.com/upload/v1/abc", file_id: "F1" }],
    ["POST /api/files.completeUploadExternal", { ok: true, files: [{ id: "F1" }] }],
    ["POST /upload/v1/abc", () => ({ body: "OK - 5" })],
  ],
  calls(base, token) {
    const web = connect(base, token);
    const list = (method, name, more) => [method, 3, async () => {
      let n = 0;
      for await (const page of web.paginate(method, { limit: 1, ...more })) n += page[name].length;
      assert.equal(n, 3);
    }];
    return [
      ["auth.test", 1, async () => assert.equal((await web.auth.test()).user_id, "U1")],
      ["chat.postMessage", 1, async () => assert.equal((await web.chat.postMessage({ channel, text: "hello" })).ts, "1.2")],
      ["chat.update", 1, async () => assert.equal((await web.chat.update({ channel, ts: "1.2", text: "hello" })).ts, "1.2")],
      list("conversations.list", "channels"),
      list("conversations.history", "messages", { channel }),
      list("conversations.replies", "messages", { channel, ts: "1.2" }),
      list("conversations.members", "members", { channel }),
      list("users.list", "members"),
      ["users.info", 1, async () => assert.equal((await web.users.info({ user: "U1" })).user.id, "U1")],
      ["reactions.add", 1, async () => assert.ok((await web.reactions.add({ channel, timestamp: "1.2", name: "x" })).ok)],
      ["views.open", 1, async () => assert.ok((await web.views.open({ trigger_id: "t", view: { type: "modal", title: { type: "plain_text", text: "t" }, blocks: [] } })).ok)],
      ["upload: filesUploadV2", 3, async () => assert.ok((await web.filesUploadV2({ channel_id: channel, file: Buffer.from("hello"), filename: "a.txt" })).ok)],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { "retry-after": "30" }, body: { ok: false, error: "ratelimited" } },
    call: (base, token) => connect(base, token).users.info({ user: "U1" }),
    check(error) {
      assert.equal(error.code, ErrorCode.RateLimitedError, error.stack);
      assert.ok(error.retryAfter > 0);
    },
  },
};
