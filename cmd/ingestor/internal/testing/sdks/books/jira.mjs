import assert from "node:assert/strict";
import { AgileClient, HttpException, Version3Client } from "jira.js";
import { pages } from "../upstream.mjs";

const settings = (base, token, more) => ({ host: `${base}/jira@acme.atlassian.net`, authentication: { basic: { email: "a@example.com", apiToken: token } }, ...more });
const connect = (base, token, more) => new Version3Client(settings(base, token, more));
const search = pages((call) => call.query.get("nextPageToken") ?? call.json?.nextPageToken, (page, next) => ({ issues: [{ key: `K-${page}` }], nextPageToken: next, isLast: !next }));
// Pages of Jira begin at a number, and name the next one by its address.
const list = (name) => (call) => {
  const from = Number(call.query.get("startAt") ?? 0);
  return { body: { [name]: [{ id: String(from) }], startAt: from, maxResults: 1, total: 3, isLast: from === 2, nextPage: from < 2 ? `https://acme.atlassian.net${call.path}?startAt=${from + 1}` : undefined } };
};

async function all(method, name, wanted) {
  let n = 0;
  for (let startAt = 0; ; startAt += 1) {
    const page = await method({ ...wanted, startAt, maxResults: 1 });
    n += page[name].length;
    if (startAt + 1 >= page.total) return n;
  }
}

export default {
  sdk: "jira.js",
  account: "acme",
  hosts: ["*.atlassian.net"],
  key: ["authorization", "Basic dGhlLXJlYWwta2V5LW9mLWppcmE="],
  answers: [
    ["GET /rest/api/3/search/jql", search],
    ["POST /rest/api/3/search/jql", search],
    ["GET /rest/api/3/issue/K-1", { key: "K-1" }],
    ["PUT /rest/api/3/issue/K-1", () => ({ status: 204 })],
    ["POST /rest/api/3/issue", { key: "K-2" }],
    ["POST /rest/api/3/issue/K-1/(comment|transitions)", () => ({ status: 201, body: { id: "1" } })],
    ["GET /rest/api/3/issue/K-1/comment", list("comments")],
    ["GET /rest/api/3/project/search", list("values")],
    ["GET /rest/agile/1.0/board", list("values")],
    ["GET /rest/api/3/myself", { accountId: "a" }],
    ["GET /rest/api/3/user/search", [{ accountId: "a" }]],
    ["POST /rest/api/3/issue/K-1/attachments", (call) => ({ body: [{ id: "1", size: call.body.length }] })],
    ["GET /rest/api/3/attachment/content/1", () => ({ status: 303, headers: { location: "https://api.media.atlassian.com/file/f/binary?token=t" } })],
  ],
  calls(base, token) {
    const jira = connect(base, token);
    const agile = new AgileClient(settings(base, token));
    const issueIdOrKey = "K-1";
    return [
      ["myself.getCurrentUser", 1, async () => assert.equal((await jira.myself.getCurrentUser()).accountId, "a")],
      ["issueSearch.searchForIssuesUsingJqlEnhancedSearch", 3, async () => {
        let n = 0, nextPageToken;
        do {
          const page = await jira.issueSearch.searchForIssuesUsingJqlEnhancedSearch({ jql: "project = K", nextPageToken });
          n += page.issues.length;
          nextPageToken = page.nextPageToken;
        } while (nextPageToken);
        assert.equal(n, 3);
      }],
      ["issues.getIssue", 1, async () => assert.equal((await jira.issues.getIssue({ issueIdOrKey })).key, "K-1")],
      ["issues.createIssue", 1, async () => assert.equal((await jira.issues.createIssue({ fields: {} })).key, "K-2")],
      ["issues.editIssue", 1, async () => jira.issues.editIssue({ issueIdOrKey, fields: {} })],
      ["issues.doTransition", 1, async () => jira.issues.doTransition({ issueIdOrKey, transition: { id: "1" } })],
      ["issueComments.addComment", 1, async () => assert.equal((await jira.issueComments.addComment({ issueIdOrKey, comment: "hello" })).id, "1")],
      ["issueComments.getComments", 3, async () => assert.equal(await all((w) => jira.issueComments.getComments(w), "comments", { issueIdOrKey }), 3)],
      ["projects.searchProjects", 3, async () => assert.equal(await all((w) => jira.projects.searchProjects(w), "values", {}), 3)],
      ["board.getAllBoards", 3, async () => assert.equal(await all((w) => agile.board.getAllBoards(w), "values", {}), 3)],
      ["userSearch.findUsers", 1, async () => assert.equal((await jira.userSearch.findUsers({ query: "a" })).length, 1)],
      ["upload: issueAttachments.addAttachment, multipart", 1, async () => assert.ok((await jira.issueAttachments.addAttachment({ issueIdOrKey, attachment: { filename: "a.txt", file: Buffer.alloc(50000, 65) } }))[0].size > 50000)],
      ["issueAttachments.getAttachmentContent, which redirects", 1, async () => {
        const answer = await connect(base, token, { baseRequestConfig: { maxRedirects: 0, validateStatus: (status) => status < 400 } })
          .sendRequestFullResponse({ url: "/rest/api/3/attachment/content/1", method: "GET" });
        assert.equal(answer.headers.location, "https://api.media.atlassian.com/file/f/binary?token=t");
      }],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { "retry-after": "30", "ratelimit-reason": "jira-burst-based" }, body: { errorMessages: ["Rate limit exceeded."], errors: {} } },
    call: (base, token) => connect(base, token).issues.getIssue({ issueIdOrKey: "K-1" }),
    check(error) {
      assert.ok(error instanceof HttpException, error.stack);
      assert.equal(error.status, 429);
    },
  },
};
