import assert from "node:assert/strict";
import { APIErrorCode, APIResponseError, Client, collectPaginatedAPI, LogLevel } from "@notionhq/client";
import { pages } from "../upstream.mjs";

const connect = (base, token) => new Client({ auth: token, baseUrl: `${base}/notion`, retry: false, logLevel: LogLevel.ERROR });
const id = "8f3d1c3a-0000-4000-8000-000000000001";
const list = (cursor) => pages(cursor, (page, next) => ({ object: "list", results: [{ object: "page", id: String(page) }], next_cursor: next ?? null, has_more: Boolean(next), type: "page" }));
const inBody = list((call) => call.json.start_cursor);
const inQuery = list("start_cursor");

export default {
  sdk: "@notionhq/client",
  hosts: ["api.notion.com"],
  key: ["authorization", "Bearer ntn_the-real-key-of-notion"],
  answers: [
    ["POST /v1/search", inBody],
    [`POST /v1/data_sources/${id}/query`, inBody],
    ["GET /v1/users", inQuery],
    ["GET /v1/users/me", { object: "user", id: "me" }],
    [`GET /v1/blocks/${id}/children`, inQuery],
    [`PATCH /v1/blocks/${id}/children`, { object: "list", results: [{}] }],
    ["GET /v1/comments", inQuery],
    ["POST /v1/comments", { object: "comment", id: "c" }],
    ["POST /v1/pages", { object: "page", id }],
    [`GET /v1/pages/${id}`, { object: "page", id }],
    [`PATCH /v1/pages/${id}`, { object: "page", id }],
    [`GET /v1/databases/${id}`, { object: "database", id }],
    ["POST /v1/file_uploads", { object: "file_upload", id: "up1", upload_url: "https://api.notion.com/v1/file_uploads/up1/send" }],
    ["POST /v1/file_uploads/up1/send", (call) => ({ body: { object: "file_upload", id: "up1", status: call.body.length > 100000 ? "uploaded" : "pending" } })],
  ],
  calls(base, token) {
    const notion = connect(base, token);
    const list = (what, method, wanted) => [what, 3, async () => assert.equal((await collectPaginatedAPI(method, wanted)).length, 3)];
    return [
      list("search", notion.search, { query: "x" }),
      list("dataSources.query", notion.dataSources.query, { data_source_id: id }),
      list("users.list", notion.users.list, {}),
      list("blocks.children.list", notion.blocks.children.list, { block_id: id }),
      list("comments.list", notion.comments.list, { block_id: id }),
      ["users.me", 1, async () => assert.equal((await notion.users.me({})).id, "me")],
      ["pages.create", 1, async () => assert.equal((await notion.pages.create({ parent: { page_id: id }, properties: {} })).id, id)],
      ["pages.retrieve", 1, async () => assert.equal((await notion.pages.retrieve({ page_id: id })).id, id)],
      ["pages.update", 1, async () => assert.equal((await notion.pages.update({ page_id: id, properties: {} })).id, id)],
      ["databases.retrieve", 1, async () => assert.equal((await notion.databases.retrieve({ database_id: id })).id, id)],
      ["blocks.children.append", 1, async () => assert.equal((await notion.blocks.children.append({ block_id: id, children: [] })).results.length, 1)],
      ["comments.create", 1, async () => assert.equal((await notion.comments.create({ parent: { page_id: id }, rich_text: [] })).id, "c")],
      ["upload: fileUploads.create and send, multipart", 2, async () => {
        const upload = await notion.fileUploads.create({ mode: "single_part" });
        assert.equal((await notion.fileUploads.send({ file_upload_id: upload.id, file: { filename: "a.txt", data: new Blob([Buffer.alloc(120000, 65)], { type: "text/plain" }) } })).status, "uploaded");
      }],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { "retry-after": "30" }, body: { object: "error", status: 429, code: "rate_limited", message: "You have been rate limited. Please try again in a few minutes." } },
    call: (base, token) => connect(base, token).users.me({}),
    check(error) {
      assert.ok(APIResponseError.isAPIResponseError(error), `the error is ${error.name}: ${error.message}`);
      assert.equal(error.code, APIErrorCode.RateLimited);
    },
  },
};
