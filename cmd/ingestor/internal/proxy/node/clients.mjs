// Calls four APIs through a proxy, each with its own unmodified SDK. Each SDK gets nothing but
// the address of the proxy and a token in place of its key.
//
//   node clients.mjs ADDRESS TOKEN CONTROL
//
// CONTROL/block?upstream=U&pool=P&seconds=N shuts a pool for a while.
import assert from "node:assert/strict";
import { google } from "googleapis";
import { Octokit } from "octokit";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

const [address, token, control] = process.argv.slice(2);

async function block(upstream, pool, seconds) {
  const answer = await fetch(`${control}/block?upstream=${upstream}&pool=${pool}&seconds=${seconds}`);
  assert.equal(answer.status, 200);
}

const clients = {
  async googleapis() {
    const youtube = google.youtube({ version: "v3", auth: token, rootUrl: `${address}/youtube/` });
    const wanted = { part: ["id"], id: ["abc"] };
    assert.equal((await youtube.videos.list(wanted)).data.kind, "youtube#videoListResponse");
    await block("youtube", "units", 30);
    await assert.rejects(youtube.videos.list(wanted, { retry: false }), (error) => {
      assert.equal(error.status ?? error.code, 429);
      assert.match(error.message, /youtube\/units/);
      assert.equal(error.response.headers.get?.("retry-after") ?? error.response.headers["retry-after"], "30");
      return true;
    });
    await block("youtube", "units", 1);
    await youtube.videos.list(wanted, { retryConfig: { retry: 6 } }); // by its own backoff
  },

  async octokit_without_throttling() {
    const octokit = new Octokit({ auth: token, baseUrl: `${address}/github`, throttle: { enabled: false }, retry: { enabled: false } });
    const issues = await octokit.paginate(octokit.rest.issues.listForRepo, { owner: "o", repo: "r", per_page: 2 });
    assert.deepEqual(issues.map((issue) => issue.number), [1, 2, 3, 4, 5]);
    await block("github", "core", 30);
    await assert.rejects(octokit.rest.issues.get({ owner: "o", repo: "r", issue_number: 1 }), (error) => {
      assert.equal(error.status, 429);
      assert.match(error.message, /API rate limit exceeded/);
      assert.equal(error.response.headers["x-ratelimit-remaining"], "0");
      return true;
    });
    await block("github", "core", 0);
  },

  async octokit_with_throttling() {
    let limited = 0;
    const octokit = new Octokit({
      auth: token, baseUrl: `${address}/github`, retry: { enabled: false }, // which would come first
      throttle: {
        onRateLimit: (after, options, octokit, retries) => { limited++; return retries < 3; },
        onSecondaryRateLimit: () => { throw new Error("that is for others"); },
      },
    });
    await block("github", "core", 2);
    const issue = await octokit.rest.issues.get({ owner: "o", repo: "r", issue_number: 3 });
    assert.equal(issue.data.number, 3);
    assert.ok(limited > 0, "it was not told of the limit");
  },

  async openai() {
    const baseURL = `${address}/openai/v1`;
    const client = new OpenAI({ apiKey: token, baseURL });
    const wanted = { model: "gpt-test", max_completion_tokens: 100, messages: [{ role: "user", content: "hello" }] };
    assert.equal((await client.chat.completions.create(wanted)).choices[0].message.content, "hello");
    let text = "";
    for await (const piece of await client.chat.completions.create({ ...wanted, stream: true, stream_options: { include_usage: true } })) {
      text += piece.choices[0]?.delta.content ?? "";
    }
    assert.equal(text, "hello");
    await block("openai", "requests", 30);
    await assert.rejects(new OpenAI({ apiKey: token, baseURL, maxRetries: 0 }).chat.completions.create(wanted), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.code, "rate_limit_exceeded");
      return true;
    });
    await block("openai", "requests", 1);
    await client.chat.completions.create(wanted); // it obeys Retry-After
    await assert.rejects(new OpenAI({ apiKey: "wrong", baseURL }).models.list(), OpenAI.AuthenticationError);
  },

  async anthropic() {
    const baseURL = `${address}/anthropic`;
    const client = new Anthropic({ apiKey: token, baseURL });
    const wanted = { model: "claude-test", max_tokens: 100, messages: [{ role: "user", content: "hello" }] };
    assert.equal((await client.messages.create(wanted)).content[0].text, "hello");
    assert.equal(await client.messages.stream(wanted).finalText(), "hello");
    await block("anthropic", "requests", 30);
    await assert.rejects(new Anthropic({ apiKey: token, baseURL, maxRetries: 0 }).messages.create(wanted), (error) => {
      assert.ok(error instanceof Anthropic.RateLimitError);
      assert.equal(error.error.error.type, "rate_limit_error");
      return true;
    });
    await block("anthropic", "requests", 1);
    await client.messages.create(wanted);
    await assert.rejects(new Anthropic({ apiKey: "wrong", baseURL }).messages.create(wanted), Anthropic.AuthenticationError);
  },
};

for (const [name, call] of Object.entries(clients)) {
  try {
    await call();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`failed ${name}: ${error.stack}\n${error.cause?.stack ?? ""}\n${error.cause?.cause?.stack ?? ""}`);
  }
}
