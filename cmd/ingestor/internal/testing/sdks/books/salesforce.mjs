import assert from "node:assert/strict";
import jsforce from "jsforce";

const connect = (base, token) => new jsforce.Connection({ instanceUrl: `${base}/salesforce@acme.my.salesforce.com`, accessToken: token, version: "62.0" });
const headers = { "sforce-limit-info": "api-usage=18/15000" };
const data = "/services/data/v62.0";
const rows = (page) => ({ headers, body: { totalSize: 3, done: page === 3, records: [{ Id: String(page) }], nextRecordsUrl: page < 3 ? `${data}/query/01g000-${page + 1}` : undefined } });
const ok = (body, status = 200) => () => ({ status, headers, body });
const saved = { id: "001", success: true, errors: [] };

export default {
  sdk: "jsforce",
  account: "acme",
  hosts: ["*.my.salesforce.com"],
  key: ["authorization", "Bearer 00D-the-real-key-of-salesforce"],
  answers: [
    [`GET ${data}/query`, () => rows(1)],
    [`GET ${data}/query/01g000-[23]`, (call) => rows(Number(call.path.at(-1)))],
    [`GET ${data}/sobjects`, ok({ sobjects: [] })],
    [`GET ${data}/sobjects/Account/describe`, ok({ name: "Account", fields: [] })],
    [`GET ${data}/sobjects/Account/001`, ok({ Id: "001" })],
    [`POST ${data}/sobjects/Account`, ok(saved, 201)],
    [`PATCH ${data}/sobjects/Account/001`, ok(undefined, 204)],
    [`PATCH ${data}/sobjects/Account/Key__c/a`, ok(saved)],
    [`DELETE ${data}/sobjects/Account/001`, ok(undefined, 204)],
    [`POST ${data}/composite/sobjects`, ok([saved, saved])],
    [`GET ${data}/search`, ok({ searchRecords: [{ Id: "1" }] })],
    [`GET ${data}/limits`, ok({ DailyApiRequests: { Max: 15000, Remaining: 14000 } })],
    [`POST ${data}/jobs/ingest`, ok({ id: "750", state: "Open", contentUrl: "services/data/v62.0/jobs/ingest/750/batches" })],
    [`PUT ${data}/jobs/ingest/750/batches`, ok(undefined, 201)],
    [`PATCH ${data}/jobs/ingest/750`, ok({ id: "750", state: "UploadComplete" })],
    ["POST /services/Soap/u/62.0", () => ({ headers: { "content-type": "text/xml" }, body: "<x/>" })],
  ],
  calls(base, token) {
    const c = connect(base, token);
    return [
      ["query and queryMore", 3, async () => {
        let page = await c.query("SELECT Id FROM Account"), n = page.records.length;
        while (!page.done) n += (page = await c.queryMore(page.nextRecordsUrl)).records.length;
        assert.equal(n, 3);
      }],
      ["query with autoFetch", 3, async () => assert.equal((await c.query("SELECT Id FROM Account").run({ autoFetch: true, maxFetch: 10 })).records.length, 3)],
      ["sobject.find, which describes first", 4, async () => assert.equal((await c.sobject("Account").find({}).execute({ autoFetch: true })).length, 3)],
      ["sobject.retrieve", 1, async () => assert.equal((await c.sobject("Account").retrieve("001")).Id, "001")],
      ["sobject.create", 1, async () => assert.ok((await c.sobject("Account").create({ Name: "a" })).success)],
      ["sobject.create of many", 1, async () => assert.equal((await c.sobject("Account").create([{ Name: "a" }, { Name: "b" }])).length, 2)],
      ["sobject.update", 1, async () => assert.ok((await c.sobject("Account").update({ Id: "001", Name: "a" })).success)],
      ["sobject.upsert", 1, async () => assert.ok((await c.sobject("Account").upsert({ Key__c: "a" }, "Key__c")).success)],
      ["sobject.destroy", 1, async () => assert.ok((await c.sobject("Account").destroy("001")).success)],
      ["sobject.describe", 1, async () => assert.equal((await c.sobject("Account").describe()).name, "Account")],
      ["describeGlobal", 1, async () => assert.deepEqual((await c.describeGlobal()).sobjects, [])],
      ["search", 1, async () => assert.equal((await c.search("FIND {a}")).searchRecords.length, 1)],
      ["limits", 1, async () => assert.ok((await c.limits()).DailyApiRequests)],
      ["upload: bulk2.job, with CSV", 3, async () => {
        const job = c.bulk2.createJob({ object: "Account", operation: "insert" });
        await job.open();
        await job.uploadData("Name\na\n");
        await job.close();
      }],
    ];
  },
  refusal: {
    answer: { status: 403, headers, body: [{ message: "TotalRequests Limit exceeded.", errorCode: "REQUEST_LIMIT_EXCEEDED" }] },
    call: (base, token) => connect(base, token).limits(),
    check: (error) => assert.equal(error.errorCode, "REQUEST_LIMIT_EXCEEDED", error.stack),
  },
};
