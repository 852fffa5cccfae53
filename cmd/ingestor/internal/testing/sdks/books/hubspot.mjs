import assert from "node:assert/strict";
import { Client } from "@hubspot/api-client";
import { pages } from "../upstream.mjs";

const connect = (base, token) => new Client({ accessToken: token, basePath: `${base}/hubspot` });
const list = (cursor) => pages(cursor, (page, next) => ({ results: [{ id: String(page), properties: {}, createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z" }], paging: next && { next: { after: next, link: `https://api.hubapi.com/crm/v3/objects/contacts?after=${next}` } } }));
const one = { id: "1", properties: {}, createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z" };

// all follows the pages of a list.
async function all(method) {
  let n = 0, after;
  do {
    const page = await method(after);
    n += page.results.length;
    after = page.paging?.next?.after;
  } while (after);
  return n;
}

export default {
  sdk: "@hubspot/api-client",
  hosts: ["api.hubapi.com"],
  key: ["authorization", "Bearer pat-the-real-key-of-hubspot"],
  answers: [
    ["GET /crm/[^/]*/?objects/.*(contacts|companies|deals)", list("after")],
    ["POST /crm/.*search", list((call) => call.json.after)],
    ["POST /crm/.*batch/read", () => ({ body: { status: "COMPLETE", results: [one], startedAt: one.createdAt, completedAt: one.createdAt } })],
    ["GET /crm/.*contacts/1", one],
    ["POST /crm/.*contacts", () => ({ status: 201, body: one })],
    ["PATCH /crm/.*contacts/1", one],
    ["DELETE /crm/.*contacts/1", () => ({ status: 204 })],
    ["GET /crm/.*owners.*", list("after")],
    ["GET /crm/.*properties.*", { results: [] }],
    ["POST /files/.*", (call) => ({ status: 201, body: { id: "f1", size: call.body.length, name: "a", createdAt: one.createdAt, updatedAt: one.createdAt } })],
  ],
  calls(base, token) {
    const { crm, files } = connect(base, token);
    return [
      ["crm.contacts.basicApi.getPage", 3, async () => assert.equal(await all((after) => crm.contacts.basicApi.getPage(1, after)), 3)],
      ["crm.contacts.getAll", 3, async () => assert.equal((await crm.contacts.getAll()).length, 3)],
      ["crm.companies.basicApi.getPage", 3, async () => assert.equal(await all((after) => crm.companies.basicApi.getPage(1, after)), 3)],
      ["crm.deals.basicApi.getPage", 3, async () => assert.equal(await all((after) => crm.deals.basicApi.getPage(1, after)), 3)],
      ["crm.contacts.basicApi.getById", 1, async () => assert.equal((await crm.contacts.basicApi.getById("1")).id, "1")],
      ["crm.contacts.basicApi.create", 1, async () => assert.equal((await crm.contacts.basicApi.create({ properties: { email: "a@example.com" }, associations: [] })).id, "1")],
      ["crm.contacts.basicApi.update", 1, async () => assert.equal((await crm.contacts.basicApi.update("1", { properties: {} })).id, "1")],
      ["crm.contacts.basicApi.archive", 1, async () => crm.contacts.basicApi.archive("1")],
      ["crm.contacts.searchApi.doSearch", 3, async () => assert.equal(await all((after) => crm.contacts.searchApi.doSearch({ after, limit: 1, filterGroups: [], properties: [], sorts: [] })), 3)],
      ["crm.contacts.batchApi.read", 1, async () => assert.equal((await crm.contacts.batchApi.read({ inputs: [{ id: "1" }], properties: [], propertiesWithHistory: [] })).results.length, 1)],
      ["crm.owners.ownersApi.getPage", 3, async () => assert.equal(await all((after) => crm.owners.ownersApi.getPage(undefined, after, 1)), 3)],
      ["crm.properties.coreApi.getAll", 1, async () => assert.equal((await crm.properties.coreApi.getAll("contacts")).results.length, 0)],
      ["upload: files.filesApi.upload, multipart", 1, async () => assert.ok((await files.filesApi.upload({ data: Buffer.alloc(50000, 65), name: "a.txt" }, undefined, "/docs", "a.txt", undefined, JSON.stringify({ access: "PRIVATE" }))).size > 50000)],
    ];
  },
  refusal: {
    answer: { status: 429, body: { status: "error", message: "You have reached your ten_secondly_rolling limit.", errorType: "RATE_LIMIT", correlationId: "c", policyName: "TEN_SECONDLY_ROLLING" } },
    call: (base, token) => connect(base, token).crm.contacts.basicApi.getById("1"),
    check(error) {
      assert.equal(error.code, 429, error.stack);
      assert.equal(error.constructor.name, "ApiException");
    },
  },
};
