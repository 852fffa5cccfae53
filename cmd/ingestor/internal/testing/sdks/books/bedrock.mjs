import assert from "node:assert/strict";
import {
  BedrockRuntimeClient, ConverseCommand, ConverseStreamCommand, CountTokensCommand, InvokeModelCommand, InvokeModelWithResponseStreamCommand,
  StartAsyncInvokeCommand, ThrottlingException, paginateListAsyncInvokes, ApplyGuardrailCommand, GetAsyncInvokeCommand,
} from "@aws-sdk/client-bedrock-runtime";
import { crc32 } from "node:zlib";
import { pages } from "../upstream.mjs";
import { count } from "./openai.mjs";

// frame is a message of AWS's event streams.
function frame(type, body) {
  const headers = Buffer.concat(Object.entries({ ":message-type": "event", ":event-type": type, ":content-type": "application/json" }).map(([name, value]) =>
    Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from([7, 0, value.length]), Buffer.from(value)])));
  const text = Buffer.from(JSON.stringify(body));
  const prelude = Buffer.alloc(8);
  prelude.writeUInt32BE(16 + headers.length + text.length, 0);
  prelude.writeUInt32BE(headers.length, 4);
  const sum = (bytes) => { const b = Buffer.alloc(4); b.writeUInt32BE(crc32(bytes)); return b; };
  const whole = Buffer.concat([prelude, sum(prelude), headers, text]);
  return Buffer.concat([whole, sum(whole)]);
}
const frames = (all) => ({ headers: { "content-type": "application/vnd.amazon.eventstream" }, stream: all.map(([type, body]) => frame(type, body)) });
const connect = (base, token) => new BedrockRuntimeClient({ region: "us-east-1", endpoint: `${base}/bedrock`, token: { token }, authSchemePreference: ["httpBearerAuth"], maxAttempts: 1 });
const modelId = "anthropic.claude-sonnet-5-v1:0";
const profile = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-5-v1:0";
const messages = [{ role: "user", content: [{ text: "hello" }] }];
const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
const said = { output: { message: { role: "assistant", content: [{ text: "hello" }] } }, stopReason: "end_turn", usage, metrics: { latencyMs: 1 } };
const body = JSON.stringify({ max_tokens: 10, messages });
const job = { invocationArn: "arn:aws:bedrock:us-east-1:1:async-invoke/a", modelArn: "m", submitTime: "2026-11-30T00:00:00Z", outputDataConfig: { s3OutputDataConfig: { s3Uri: "s3://b" } }, status: "Completed" };

export default {
  sdk: "@aws-sdk/client-bedrock-runtime",
  hosts: ["bedrock-runtime.us-east-1.amazonaws.com"],
  account: "us-east-1",
  key: ["authorization", "Bearer bedrock-api-key-the-real-one"],
  answers: [
    ["POST /model/[^/]+/converse", said],
    ["POST /model/[^/]+/converse-stream", () => frames([["messageStart", { role: "assistant" }], ["contentBlockDelta", { contentBlockIndex: 0, delta: { text: "hello" } }], ["messageStop", { stopReason: "end_turn" }], ["metadata", { usage, metrics: { latencyMs: 1 } }]])],
    ["POST /model/[^/]+/invoke", () => ({ headers: { "content-type": "application/json", "x-amzn-bedrock-input-token-count": "1", "x-amzn-bedrock-output-token-count": "1" }, body: { content: [{ text: "hello" }] } })],
    ["POST /model/[^/]+/invoke-with-response-stream", () => frames([["chunk", { bytes: "aGVsbG8=" }], ["chunk", { bytes: "aGVsbG8=" }]])],
    ["POST /model/[^/]+/count-tokens", { inputTokens: 3 }],
    ["POST /guardrail/g/version/1/apply", { action: "NONE", outputs: [], assessments: [], usage: {} }],
    ["POST /async-invoke", { invocationArn: job.invocationArn }],
    ["GET /async-invoke", pages("nextToken", (page, next) => ({ asyncInvokeSummaries: [job], nextToken: next }))],
    ["GET /async-invoke/.*", job],
  ],
  calls(base, token) {
    const client = connect(base, token);
    return [
      ["Converse", 1, async () => assert.equal((await client.send(new ConverseCommand({ modelId, messages, inferenceConfig: { maxTokens: 100 } }))).output.message.content[0].text, "hello")],
      ["Converse of an inference profile", 1, async () => assert.equal((await client.send(new ConverseCommand({ modelId: profile, messages, inferenceConfig: { maxTokens: 100 } }))).usage.totalTokens, 2)],
      ["ConverseStream", 1, async () => assert.equal(await count((await client.send(new ConverseStreamCommand({ modelId, messages, inferenceConfig: { maxTokens: 100 } }))).stream), 4)],
      ["InvokeModel", 1, async () => assert.match(Buffer.from((await client.send(new InvokeModelCommand({ modelId, body, contentType: "application/json" }))).body).toString(), /hello/)],
      ["InvokeModelWithResponseStream", 1, async () => assert.equal(await count((await client.send(new InvokeModelWithResponseStreamCommand({ modelId, body, contentType: "application/json" }))).body), 2)],
      ["CountTokens", 1, async () => assert.equal((await client.send(new CountTokensCommand({ modelId, input: { converse: { messages } } }))).inputTokens, 3)],
      ["ApplyGuardrail", 1, async () => assert.equal((await client.send(new ApplyGuardrailCommand({ guardrailIdentifier: "g", guardrailVersion: "1", source: "INPUT", content: [{ text: { text: "hello" } }] }))).action, "NONE")],
      ["StartAsyncInvoke", 1, async () => assert.equal((await client.send(new StartAsyncInvokeCommand({ modelId, modelInput: {}, outputDataConfig: job.outputDataConfig }))).invocationArn, job.invocationArn)],
      ["GetAsyncInvoke", 1, async () => assert.equal((await client.send(new GetAsyncInvokeCommand({ invocationArn: job.invocationArn }))).status, "Completed")],
      ["ListAsyncInvokes", 3, async () => assert.equal(await count(paginateListAsyncInvokes({ client }, {})), 3)],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { "x-amzn-errortype": "ThrottlingException" }, body: { message: "Too many requests, please wait before trying again." } },
    call: (base, token) => connect(base, token).send(new ConverseCommand({ modelId, messages })),
    check(error) {
      assert.equal(error.$metadata?.httpStatusCode, 429, error.stack);
      assert.ok(error instanceof ThrottlingException, `the error is ${error.name}`);
    },
  },
};
