import assert from "node:assert/strict";
import Anthropic, { toFile } from "@anthropic-ai/sdk";
import { events, pages } from "../upstream.mjs";
import { count } from "./openai.mjs";

const usage = { input_tokens: 3, output_tokens: 1 };
const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-opus-5", content: [{ type: "text", text: "hello" }], stop_reason: "end_turn", usage };
const list = pages((call) => call.query.get("after_id"), (page, next) => ({ data: [{ id: `page-${page}` }], has_more: Boolean(next), first_id: "a", last_id: next ?? null }));
const connect = (base, token) => new Anthropic({ apiKey: token, baseURL: `${base}/anthropic`, maxRetries: 0 });
const wanted = { model: "claude-opus-5", max_tokens: 100, messages: [{ role: "user", content: "hello" }] };
const batch = { id: "msgbatch_1", processing_status: "ended", results_url: "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results" };

export default {
  sdk: "@anthropic-ai/sdk",
  hosts: ["api.anthropic.com"],
  key: ["x-api-key", "sk-ant-the-real-key-of-anthropic"],
  answers: [
    ["POST /v1/messages", (call) => call.json.stream
      ? events([
        { type: "message_start", message: { ...message, content: [], stop_reason: null } },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "hello" } },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
        { type: "message_stop" },
      ], true)
      : { body: message }],
    ["POST /v1/messages/count_tokens", { input_tokens: 3 }],
    ["GET /v1/models", list],
    ["GET /v1/models/claude-opus-5", { id: "claude-opus-5", type: "model" }],
    ["POST /v1/messages/batches", batch],
    ["GET /v1/messages/batches", list],
    ["GET /v1/messages/batches/msgbatch_1", batch],
    ["GET /v1/messages/batches/msgbatch_1/results", () => ({ headers: { "content-type": "application/x-jsonl" }, body: '{"custom_id":"a","result":{"type":"canceled"}}\n{"custom_id":"b","result":{"type":"canceled"}}\n' })],
    ["POST /v1/files", (call) => ({ body: { id: "file_1", size_bytes: call.body.length } })],
    ["GET /v1/files", pages("page", (page, next) => ({ data: [{ id: `page-${page}` }], next_page: next ?? null }))],
  ],
  calls(base, token) {
    const client = connect(base, token);
    return [
      ["messages.create", 1, async () => assert.equal((await client.messages.create(wanted)).content[0].text, "hello")],
      ["messages.stream", 1, async () => assert.equal(await client.messages.stream(wanted).finalText(), "hello")],
      ["messages.countTokens", 1, async () => assert.equal((await client.messages.countTokens({ model: wanted.model, messages: wanted.messages })).input_tokens, 3)],
      ["beta.messages.create", 1, async () => assert.equal((await client.beta.messages.create({ ...wanted, betas: ["files-api-2025-04-14"] })).content[0].text, "hello")],
      ["models.list", 3, async () => assert.equal(await count(client.models.list()), 3)],
      ["models.retrieve", 1, async () => assert.equal((await client.models.retrieve("claude-opus-5")).id, "claude-opus-5")],
      ["messages.batches.create", 1, async () => assert.equal((await client.messages.batches.create({ requests: [{ custom_id: "a", params: wanted }] })).id, "msgbatch_1")],
      ["messages.batches.list", 3, async () => assert.equal(await count(client.messages.batches.list()), 3)],
      ["messages.batches.results", 2, async () => assert.equal(await count(await client.messages.batches.results("msgbatch_1")), 2)],
      ["beta.files.upload, multipart", 1, async () => assert.ok((await client.beta.files.upload({ file: await toFile(Buffer.alloc(200000, 65), "a.txt") })).size_bytes > 200000)],
      ["beta.files.list", 3, async () => assert.equal(await count(client.beta.files.list()), 3)],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { "retry-after": "30" }, body: { type: "error", error: { type: "rate_limit_error", message: "This request would exceed your organization's rate limit" } } },
    call: (base, token) => connect(base, token).messages.create(wanted),
    check(error) {
      assert.ok(error instanceof Anthropic.RateLimitError, error.stack);
      assert.equal(error.error.error.type, "rate_limit_error");
    },
  },
};
