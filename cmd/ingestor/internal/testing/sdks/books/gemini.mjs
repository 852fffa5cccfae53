import assert from "node:assert/strict";
import { ApiError, GoogleGenAI } from "@google/genai";
import { events, pages } from "../upstream.mjs";
import { count } from "./openai.mjs";

const connect = (base, token) => new GoogleGenAI({ apiKey: token, httpOptions: { baseUrl: `${base}/gemini`, retryOptions: { attempts: 1 } } });
const answer = { candidates: [{ content: { role: "model", parts: [{ text: "hello" }] } }], usageMetadata: { promptTokenCount: 3, totalTokenCount: 4 } };
const model = "gemini-2.5-flash";
const list = (name) => pages("pageToken", (page, next) => ({ [name]: [{ name: `${name}/${page}` }], nextPageToken: next }));

export default {
  sdk: "@google/genai",
  hosts: ["generativelanguage.googleapis.com"],
  key: ["x-goog-api-key", "AIza-the-real-key-of-gemini"],
  answers: [
    [`POST /v1beta/models/${model}:generateContent`, answer],
    [`POST /v1beta/models/${model}:streamGenerateContent`, () => events([answer, answer])],
    [`POST /v1beta/models/${model}:countTokens`, { totalTokens: 3 }],
    ["POST /v1beta/models/gemini-embedding-001:batchEmbedContents", { embeddings: [{ values: [0.5] }] }],
    ["GET /v1beta/cachedContents/1", { name: "cachedContents/1" }],
    ["GET /v1beta/models", list("models")],
    [`GET /v1beta/models/${model}`, { name: `models/${model}` }],
    ["GET /v1beta/files", list("files")],
    ["GET /v1beta/cachedContents", list("cachedContents")],
    ["POST /v1beta/cachedContents", { name: "cachedContents/1" }],
    ["GET /v1beta/batches", list("operations")],
    ["POST /upload/v1beta/files", (call) => call.query.get("upload_id")
      ? { headers: { "x-goog-upload-status": call.headers["x-goog-upload-command"].includes("finalize") ? "final" : "active" }, body: { file: { name: "files/1", sizeBytes: String(Number(call.headers["x-goog-upload-offset"]) + call.body.length) } } }
      : { headers: { "x-goog-upload-url": `https://${call.host}/upload/v1beta/files?upload_id=up1&upload_protocol=resumable`, "x-goog-upload-status": "active" }, body: {} }],
  ],
  calls(base, token) {
    const ai = connect(base, token);
    return [
      ["models.generateContent", 1, async () => assert.equal((await ai.models.generateContent({ model, contents: "hello" })).text, "hello")],
      ["models.generateContentStream", 1, async () => assert.equal(await count(await ai.models.generateContentStream({ model, contents: "hello" })), 2)],
      ["chats.sendMessage", 1, async () => assert.equal((await ai.chats.create({ model }).sendMessage({ message: "hello" })).text, "hello")],
      ["models.countTokens", 1, async () => assert.equal((await ai.models.countTokens({ model, contents: "hello" })).totalTokens, 3)],
      ["models.embedContent", 1, async () => assert.equal((await ai.models.embedContent({ model: "gemini-embedding-001", contents: "hello" })).embeddings[0].values[0], 0.5)],
      ["caches.get", 1, async () => assert.equal((await ai.caches.get({ name: "cachedContents/1" })).name, "cachedContents/1")],
      ["models.list", 3, async () => assert.equal(await count(await ai.models.list()), 3)],
      ["models.get", 1, async () => assert.equal((await ai.models.get({ model })).name, `models/${model}`)],
      ["files.upload, resumable", 3, async () => assert.equal((await ai.files.upload({ file: new Blob([Buffer.alloc(9_000_000, 65)]), config: { mimeType: "text/plain" } })).sizeBytes, "9000000")],
      ["files.list", 3, async () => assert.equal(await count(await ai.files.list()), 3)],
      ["caches.create", 1, async () => assert.equal((await ai.caches.create({ model, config: { contents: "hello" } })).name, "cachedContents/1")],
      ["caches.list", 3, async () => assert.equal(await count(await ai.caches.list()), 3)],
      ["batches.list", 3, async () => assert.equal(await count(await ai.batches.list()), 3)],
    ];
  },
  refusal: {
    answer: { status: 429, body: { error: { code: 429, message: "You exceeded your current quota", status: "RESOURCE_EXHAUSTED", details: [
      { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [{ quotaId: "GenerateRequestsPerMinutePerProjectPerModel" }] }, { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34s" }] } } },
    call: (base, token) => connect(base, token).models.generateContent({ model, contents: "hello" }),
    check(error) {
      assert.ok(error instanceof ApiError, error.stack);
      assert.equal(error.status, 429);
      assert.match(error.message, /RESOURCE_EXHAUSTED/);
    },
  },
};
