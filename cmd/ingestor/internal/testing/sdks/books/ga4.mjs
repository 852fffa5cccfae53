import assert from "node:assert/strict";
import { BetaAnalyticsDataClient } from "@google-analytics/data";
import { OAuth2Client } from "google-auth-library";
import { pages } from "../upstream.mjs";

// The client keeps only the host of its address, and sends paths that begin with no upstream.
const connect = (base, token) => {
  const { hostname, port } = new URL(base);
  const authClient = new OAuth2Client();
  authClient.setCredentials({ access_token: token, expiry_date: Date.now() + 3600_000 });
  return new BetaAnalyticsDataClient({ fallback: true, apiEndpoint: hostname, port: Number(port), protocol: "http", authClient });
};
const property = "properties/123";
const quota = { tokensPerDay: { consumed: 3, remaining: 199000 }, tokensPerHour: { consumed: 3, remaining: 39000 }, tokensPerProjectPerHour: { consumed: 3, remaining: 13900 } };
const report = { rowCount: 3, rows: [{ dimensionValues: [{ value: "a" }] }], propertyQuota: quota };
const wanted = { property, dimensions: [{ name: "city" }], metrics: [{ name: "activeUsers" }], dateRanges: [{ startDate: "7daysAgo", endDate: "today" }], returnPropertyQuota: true };
const exported = { name: `${property}/audienceExports/1`, state: "ACTIVE" };

export default {
  sdk: "@google-analytics/data",
  hosts: ["analyticsdata.googleapis.com"],
  key: ["authorization", "Bearer ya29.the-real-key-of-ga4"],
  base: "host only; a token of one upstream",
  answers: [
    ["POST /v1beta/properties/123:(runReport|runPivotReport|runRealtimeReport)", report],
    ["POST /v1beta/properties/123:batchRunReports", { reports: [report, report] }],
    ["POST /v1beta/properties/123:batchRunPivotReports", { pivotReports: [report] }],
    ["POST /v1beta/properties/123:checkCompatibility", { dimensionCompatibilities: [{ compatibility: "COMPATIBLE" }] }],
    ["GET /v1beta/properties/123/metadata", { name: `${property}/metadata`, dimensions: [{ apiName: "city" }] }],
    ["POST /v1beta/properties/123/audienceExports", { name: "operations/1", done: true, response: { "@type": "type.googleapis.com/google.analytics.data.v1beta.AudienceExport", ...exported } }],
    ["GET /v1beta/properties/123/audienceExports/1", exported],
    ["POST /v1beta/properties/123/audienceExports/1:query", { rowCount: 1, audienceRows: [] }],
    ["GET /v1beta/properties/123/audienceExports", pages("pageToken", (page, next) => ({ audienceExports: [exported], nextPageToken: next ?? "" }))],
  ],
  calls(base, token) {
    const client = connect(base, token);
    return [
      ["runReport", 3, async () => {
        let rows = 0;
        for (const offset of [0, 1, 2]) rows += (await client.runReport({ ...wanted, limit: 1, offset }))[0].rows.length;
        assert.equal(rows, 3);
      }],
      ["runPivotReport", 1, async () => assert.equal((await client.runPivotReport({ ...wanted, pivots: [{ fieldNames: ["city"], limit: 5 }] }))[0].rows.length, 1)],
      ["runRealtimeReport", 1, async () => assert.equal((await client.runRealtimeReport({ property, metrics: wanted.metrics }))[0].rows.length, 1)],
      ["batchRunReports", 1, async () => assert.equal((await client.batchRunReports({ property, requests: [wanted, wanted] }))[0].reports.length, 2)],
      ["batchRunPivotReports", 1, async () => assert.equal((await client.batchRunPivotReports({ property, requests: [wanted] }))[0].pivotReports.length, 1)],
      ["getMetadata", 1, async () => assert.equal((await client.getMetadata({ name: `${property}/metadata` }))[0].dimensions.length, 1)],
      ["checkCompatibility", 1, async () => assert.equal((await client.checkCompatibility({ property, dimensions: wanted.dimensions }))[0].dimensionCompatibilities.length, 1)],
      ["createAudienceExport", 1, async () => assert.ok(await client.createAudienceExport({ parent: property, audienceExport: { audience: "a", dimensions: [] } }))],
      ["getAudienceExport", 1, async () => assert.equal((await client.getAudienceExport({ name: exported.name }))[0].state, "ACTIVE")],
      ["queryAudienceExport", 1, async () => assert.equal((await client.queryAudienceExport({ name: exported.name }))[0].rowCount, 1)],
      ["listAudienceExports", 3, async () => assert.equal((await client.listAudienceExports({ parent: property }))[0].length, 3)],
    ];
  },
  refusal: {
    answer: { status: 429, body: { error: { code: 429, message: "Exhausted property tokens per hour.", status: "RESOURCE_EXHAUSTED" } } },
    call: (base, token) => connect(base, token).runReport(wanted, { retry: null }),
    check: (error) => assert.deepEqual([error.code, error.status], [429, 429], error.stack), // of gaxios, which makes the request
  },
};
