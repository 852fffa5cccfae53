import assert from "node:assert/strict";
import { DiscordAPIError, RateLimitError, REST } from "@discordjs/rest";

const connect = (base, token) => new REST({ api: `${base}/discord/api`, retries: 0, rejectOnRateLimit: () => true }).setToken(token);
// Discord's pages go on behind the last id.
const list = (call) => {
  const page = Number(call.query.get("before") ?? call.query.get("after") ?? 0) + 1;
  return { body: page <= 3 ? [{ id: String(page), user: { id: String(page) } }] : [] };
};
const limits = { "x-ratelimit-limit": "50", "x-ratelimit-remaining": "49", "x-ratelimit-reset-after": "1.000", "x-ratelimit-bucket": "b" };
const json = (body, status = 200) => () => ({ status, headers: limits, body });

export default {
  sdk: "@discordjs/rest",
  hosts: ["discord.com"],
  key: ["authorization", "Bot the-real-key-of-discord"],
  answers: [
    ["GET /api/v10/channels/1/messages", list],
    ["GET /api/v10/guilds/2/members", list],
    ["GET /api/v10/guilds/2/bans", list],
    ["POST /api/v10/channels/1/messages", (call) => ({ headers: limits, body: { id: "9", content: call.body.includes("the file") ? "file" : "text" } })],
    ["PATCH /api/v10/channels/1/messages/9", json({ id: "9" })],
    ["DELETE /api/v10/channels/1/messages/9", json(undefined, 204)],
    ["PUT /api/v10/channels/1/messages/9/reactions/%F0%9F%91%8D/@me", json(undefined, 204)],
    ["GET /api/v10/guilds/2", json({ id: "2" })],
    ["GET /api/v10/users/@me", json({ id: "7" })],
    ["GET /api/v10/gateway/bot", json({ url: "wss://gateway.discord.gg", shards: 1 })],
    ["PUT /api/v10/applications/7/guilds/2/commands", json([{ id: "c" }])],
    ["POST /api/v10/webhooks/5/secret", json({ id: "8" })],
    ["POST /api/v10/interactions/6/secret/callback", json(undefined, 204)],
  ],
  calls(base, token) {
    const rest = connect(base, token);
    const list = (what, path, from) => [what, 4, async () => {
      let n = 0;
      for (let last = "0"; last; ) {
        const page = await rest.get(path, { query: new URLSearchParams({ limit: "1", [from]: last }) });
        n += page.length;
        last = page.at(-1)?.id;
      }
      assert.equal(n, 3);
    }];
    return [
      ["get current user", 1, async () => assert.equal((await rest.get("/users/@me")).id, "7")],
      ["get gateway", 1, async () => assert.equal((await rest.get("/gateway/bot")).shards, 1)],
      ["get guild", 1, async () => assert.equal((await rest.get("/guilds/2")).id, "2")],
      list("list messages", "/channels/1/messages", "before"),
      list("list members", "/guilds/2/members", "after"),
      list("list bans", "/guilds/2/bans", "after"),
      ["create message", 1, async () => assert.equal((await rest.post("/channels/1/messages", { body: { content: "hello" } })).content, "text")],
      ["edit message", 1, async () => assert.equal((await rest.patch("/channels/1/messages/9", { body: { content: "x" } })).id, "9")],
      ["add reaction", 1, async () => rest.put(`/channels/1/messages/9/reactions/${encodeURIComponent("👍")}/@me`)],
      ["delete message", 1, async () => rest.delete("/channels/1/messages/9")],
      ["put commands", 1, async () => assert.equal((await rest.put("/applications/7/guilds/2/commands", { body: [] })).length, 1)],
      ["execute webhook", 1, async () => assert.equal((await rest.post("/webhooks/5/secret", { body: { content: "x" }, query: new URLSearchParams({ wait: "true" }) })).id, "8")],
      ["answer interaction", 1, async () => rest.post("/interactions/6/secret/callback", { body: { type: 4 } })],
      ["upload: message with a file, multipart", 1, async () => assert.equal((await rest.post("/channels/1/messages", { body: { content: "x" }, files: [{ name: "a.txt", data: Buffer.from("the file") }] })).content, "file")],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { ...limits, "x-ratelimit-remaining": "0", "x-ratelimit-scope": "user", "retry-after": "30", "x-ratelimit-reset-after": "30" }, body: { message: "You are being rate limited.", retry_after: 30, global: false } },
    call: (base, token) => connect(base, token).get("/guilds/2"),
    check(error) {
      assert.ok(error instanceof RateLimitError || error instanceof DiscordAPIError, error.stack);
      assert.ok(error instanceof RateLimitError, `the error is ${error.name}: ${error.message}`);
      assert.ok(error.timeToReset > 1000, `it may try again after ${error.timeToReset} ms`);
    },
  },
};
