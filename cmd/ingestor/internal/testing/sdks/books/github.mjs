import assert from "node:assert/strict";
import { Octokit } from "octokit";

// GitHub names the next page by the number of the repository.
const list = (make) => (call) => {
  const page = Number(call.query.get("page") ?? 1);
  const next = `<https://api.github.com/repositories/7${call.path.replace(/^\/(repos\/o\/r|repositories\/7)/, "")}?per_page=2&page=${page + 1}>; rel="next", <https://api.github.com/repositories/7/x?page=3>; rel="last"`;
  return { headers: page < 3 ? { link: next } : {}, body: make(page) };
};
const numbers = list((page) => [{ number: 2 * page - 1 }, { number: 2 * page }]);
const connect = (base, token, more) => new Octokit({ auth: token, baseUrl: `${base}/github`, throttle: { enabled: false }, retry: { enabled: false }, ...more });
const o = { owner: "o", repo: "r" };

export default {
  sdk: "octokit",
  hosts: ["api.github.com", "uploads.github.com", "codeload.github.com"],
  key: ["authorization", "Bearer ghp_the-real-key-of-github"],
  answers: [
    ["GET /(repos/o/r|repositories/7)/issues", numbers],
    ["GET /(repos/o/r|repositories/7)/(pulls|commits)", numbers],
    ["GET /repos/o/r", { full_name: "o/r" }],
    ["GET /repos/o/r/contents/docs%2Fa%20b.md", { type: "file", content: "aGVsbG8=" }],
    ["GET /repos/o/r/git/ref/heads%2Fmain", { ref: "refs/heads/main" }],
    ["POST /repos/o/r/issues", { number: 7 }],
    ["POST /repos/o/r/issues/7/comments", { id: 8 }],
    ["PUT /repos/o/r/contents/docs(%2F|/)a.md", { commit: { sha: "c" } }],
    ["GET /search/issues", (call) => {
      const page = Number(call.query.get("page") ?? 1);
      const next = `<https://api.github.com/search/issues?q=x&page=${page + 1}>; rel="next"`;
      return { headers: page < 3 ? { link: next } : {}, body: { total_count: 3, items: [{ number: page }] } };
    }],
    ["POST /graphql", (call) => {
      const page = Number(call.json.variables?.cursor ?? 1);
      return { body: { data: { repository: { issues: { nodes: [{ number: page }], pageInfo: { hasNextPage: page < 3, endCursor: String(page + 1) } } } } } };
    }],
    ["POST /repos/o/r/releases/1/assets", (call) => ({ status: 201, body: { id: 1, size: call.body.length, name: call.query.get("name"), host: call.host } })],
    ["GET /user", { login: "octocat" }],
  ],
  calls(base, token) {
    const octokit = connect(base, token);
    return [
      ["users.getAuthenticated", 1, async () => assert.equal((await octokit.rest.users.getAuthenticated()).data.login, "octocat")],
      ["repos.get", 1, async () => assert.equal((await octokit.rest.repos.get(o)).data.full_name, "o/r")],
      ["issues.listForRepo", 3, async () => assert.equal((await octokit.paginate(octokit.rest.issues.listForRepo, { ...o, per_page: 2 })).length, 6)],
      ["pulls.list", 3, async () => assert.equal((await octokit.paginate(octokit.rest.pulls.list, { ...o, per_page: 2 })).length, 6)],
      ["repos.listCommits", 3, async () => assert.equal((await octokit.paginate(octokit.rest.repos.listCommits, { ...o, per_page: 2 })).length, 6)],
      ["search.issuesAndPullRequests", 3, async () => assert.equal((await octokit.paginate(octokit.rest.search.issuesAndPullRequests, { q: "x" })).length, 3)],
      ["repos.getContent", 1, async () => assert.equal((await octokit.rest.repos.getContent({ ...o, path: "docs/a b.md" })).data.type, "file")],
      ["git.getRef", 1, async () => assert.equal((await octokit.rest.git.getRef({ ...o, ref: "heads/main" })).data.ref, "refs/heads/main")],
      ["repos.createOrUpdateFileContents", 1, async () => assert.equal((await octokit.rest.repos.createOrUpdateFileContents({ ...o, path: "docs/a.md", message: "m", content: "eA==" })).data.commit.sha, "c")],
      ["issues.create", 1, async () => assert.equal((await octokit.rest.issues.create({ ...o, title: "t" })).data.number, 7)],
      ["issues.createComment", 1, async () => assert.equal((await octokit.rest.issues.createComment({ ...o, issue_number: 7, body: "b" })).data.id, 8)],
      ["graphql.paginate", 3, async () => {
        const all = await octokit.graphql.paginate("query p($cursor: String) { repository(owner: \"o\", name: \"r\") { issues(first: 1, after: $cursor) { nodes { number } pageInfo { hasNextPage endCursor } } } }");
        assert.equal(all.repository.issues.nodes.length, 3);
      }],
      ["upload of a release asset", 1, async () => {
        const sent = await octokit.rest.repos.uploadReleaseAsset({ ...o, release_id: 1, name: "a.bin", data: Buffer.alloc(100000, 1), baseUrl: `${base}/github@uploads.github.com` });
        assert.deepEqual([sent.data.size, sent.data.host], [100000, "uploads.github.com"]);
      }],
    ];
  },
  refusal: {
    answer: {
      status: 403, headers: { "x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0", "x-ratelimit-resource": "core", "x-ratelimit-reset": String(Math.floor(Date.now() / 1000) + 900) },
      body: { message: "API rate limit exceeded for user ID 1.", documentation_url: "https://docs.github.com/rest" },
    },
    call: (base, token) => connect(base, token).rest.issues.get({ ...o, issue_number: 1 }),
    check(error) {
      assert.equal(error.name, "HttpError");
      assert.ok([403, 429].includes(error.status), `status ${error.status}`);
      assert.match(error.message, /API rate limit exceeded/);
      assert.equal(error.response.headers["x-ratelimit-remaining"], "0");
    },
  },
};
