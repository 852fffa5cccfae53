import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";
import { events, pages } from "../upstream.mjs";

export const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const chat = { id: "c", object: "chat.completion", choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }], usage };
const list = pages("after", (page, next) => ({ object: "list", data: [{ id: `page-${page + 1}` }], has_more: Boolean(next), first_id: "a", last_id: next ?? "z" }));
const response = { id: "resp_1", object: "response", status: "completed", output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "hello" }] }], usage: { total_tokens: 2 } };

export const answers = (prefix) => [
  [`POST ${prefix}/chat/completions`, (call) => call.json.stream
    ? events([{ id: "c", choices: [{ index: 0, delta: { content: "hello" } }] }, { id: "c", choices: [], usage }], false, ["data: [DONE]\n\n"])
    : { body: chat }],
  [`POST ${prefix}/responses`, (call) => call.json.stream
    ? events([{ type: "response.output_text.delta", delta: "hello" }, { type: "response.completed", response }], true)
    : { body: response }],
  [`POST ${prefix}/embeddings`, { data: [{ index: 0, embedding: [0.5] }], usage }],
  [`POST ${prefix}/images/generations`, { data: [{ b64_json: "AA==" }] }],
  [`POST ${prefix}/moderations`, { results: [{ flagged: false }] }],
  [`POST ${prefix}/audio/transcriptions`, (call) => ({ body: { text: String(call.body.includes("the sound")) } })],
  [`POST ${prefix}/audio/speech`, { }],
  [`GET ${prefix}/models`, { data: [{ id: "gpt-5" }] }],
  [`POST ${prefix}/files`, (call) => ({ body: { id: "file-1", bytes: call.body.length } })],
  [`GET ${prefix}/files`, list],
  [`GET ${prefix}/files/file-1/content`, (call) => ({ headers: { "content-type": "application/jsonl" }, body: "{}\n" })],
  [`GET ${prefix}/(batches|fine_tuning/jobs)`, list],
  [`POST ${prefix}/batches`, { id: "batch_1", status: "validating" }],
];
export async function count(all) {
  let n = 0;
  for await (const item of all) n += item ? 1 : 0;
  return n;
}
const messages = [{ role: "user", content: "hello" }];
export const own = (client, model) => [
  ["chat.completions.create", 1, async () => assert.equal((await client.chat.completions.create({ model, messages, max_completion_tokens: 10 })).choices[0].message.content, "hello")],
  ["chat.completions.create, streamed", 1, async () => {
    let text = "";
    for await (const piece of await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })) text += piece.choices[0]?.delta.content ?? "";
    assert.equal(text, "hello");
  }],
  ["responses.create", 1, async () => assert.equal((await client.responses.create({ model, input: "hello" })).output_text, "hello")],
  ["responses.stream", 1, async () => {
    let text = "";
    for await (const event of await client.responses.create({ model, input: "hello", stream: true })) text += event.delta ?? "";
    assert.equal(text, "hello");
  }],
  ["embeddings.create", 1, async () => assert.equal((await client.embeddings.create({ model, input: "hello", encoding_format: "float" })).data[0].embedding[0], 0.5)],
  ["images.generate", 1, async () => assert.equal((await client.images.generate({ model, prompt: "a cat" })).data[0].b64_json, "AA==")],
  ["audio.transcriptions.create, multipart", 1, async () => assert.equal((await client.audio.transcriptions.create({ model, file: await toFile(Buffer.from("the sound"), "a.mp3") })).text, "true")],
];
export const refusal = (connect) => ({
  answer: { status: 429, headers: { "retry-after": "30", "x-ratelimit-remaining-requests": "0" }, body: { error: { message: "Rate limit reached for gpt-5 on requests per min (RPM)", type: "requests", param: null, code: "rate_limit_exceeded" } } },
  call: (base, token, name) => connect(base, token, name).chat.completions.create({ model: "gpt-refused", messages }),
  check(error) {
    assert.ok(error instanceof OpenAI.RateLimitError, error.stack);
    assert.equal(error.code, "rate_limit_exceeded");
  },
});

const connect = (base, token) => new OpenAI({ apiKey: token, baseURL: `${base}/openai/v1`, maxRetries: 0 });
export const general = (client) => [
  ["models.list", 1, async () => assert.equal(await count(client.models.list()), 1)],
  ["moderations.create", 1, async () => assert.equal((await client.moderations.create({ input: "hello" })).results[0].flagged, false)],
  ["files.create, multipart", 1, async () => assert.ok((await client.files.create({ file: await toFile(Buffer.alloc(200000, 65), "a.jsonl"), purpose: "batch" })).bytes > 200000)],
  ["files.list", 3, async () => assert.equal(await count(client.files.list()), 3)],
  ["files.content", 1, async () => assert.equal(await (await client.files.content("file-1")).text(), "{}\n")],
  ["batches.create", 1, async () => assert.equal((await client.batches.create({ input_file_id: "file-1", endpoint: "/v1/chat/completions", completion_window: "24h" })).id, "batch_1")],
  ["batches.list", 3, async () => assert.equal(await count(client.batches.list()), 3)],
  ["fineTuning.jobs.list", 3, async () => assert.equal(await count(client.fineTuning.jobs.list()), 3)],
];

export default {
  sdk: "openai",
  hosts: ["api.openai.com"],
  key: ["authorization", "Bearer sk-the-real-key-of-openai"],
  answers: answers("/v1"),
  calls: (base, token) => [...own(connect(base, token), "gpt-5"), ...general(connect(base, token))],
  refusal: refusal(connect),
};
