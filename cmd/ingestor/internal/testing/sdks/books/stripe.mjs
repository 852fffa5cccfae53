import assert from "node:assert/strict";
import Stripe from "stripe";
import { pages } from "../upstream.mjs";
import { count } from "./openai.mjs";

// The SDK has a host and a port, and no path. It sends files to another host of Stripe.
const connect = (base, token) => {
  const { hostname, port } = new URL(base);
  return new Stripe(token, { host: hostname, port: Number(port), protocol: "http", maxNetworkRetries: 0, telemetry: false });
};
const list = pages((call) => call.query.get("starting_after"), (page, next, call) => ({ object: "list", url: call.path, data: [{ id: `page-${page + 1}` }], has_more: Boolean(next) }));

export default {
  sdk: "stripe",
  hosts: ["api.stripe.com", "files.stripe.com"],
  key: ["authorization", "Bearer sk_live_the-real-key-of-stripe"],
  base: "host only; a token of one upstream",
  answers: [
    ["GET /v1/(customers|charges|subscriptions|invoices|events)", list],
    ["GET /v1/(customers|charges)/search", pages("page", (page, next) => ({ object: "search_result", data: [{ id: String(page) }], has_more: Boolean(next), next_page: next ?? null }))],
    ["POST /v1/customers", { id: "cus_1", object: "customer" }],
    ["GET /v1/customers/cus_1", { id: "cus_1", object: "customer" }],
    ["POST /v1/payment_intents", { id: "pi_1", object: "payment_intent" }],
    ["POST /v1/payment_intents/pi_1/confirm", { id: "pi_1", status: "succeeded" }],
    ["POST /v1/refunds", { id: "re_1" }],
    ["POST /v1/checkout/sessions", { id: "cs_1" }],
    ["POST /v1/files", (call) => ({ body: { id: "file_1", size: call.body.length, url: `https://${call.host}` } })],
  ],
  calls(base, token) {
    const stripe = connect(base, token);
    const list = (what, resource) => [what, 3, async () => assert.equal(await count(resource.list({ limit: 1 })), 3)];
    return [
      list("customers.list", stripe.customers),
      list("charges.list", stripe.charges),
      list("subscriptions.list", stripe.subscriptions),
      list("invoices.list", stripe.invoices),
      list("events.list", stripe.events),
      ["customers.search", 3, async () => assert.equal(await count(stripe.customers.search({ query: "email:'a'" })), 3)],
      ["customers.create", 1, async () => assert.equal((await stripe.customers.create({ email: "a@example.com" })).id, "cus_1")],
      ["customers.retrieve", 1, async () => assert.equal((await stripe.customers.retrieve("cus_1")).id, "cus_1")],
      ["paymentIntents.create", 1, async () => assert.equal((await stripe.paymentIntents.create({ amount: 100, currency: "eur" })).id, "pi_1")],
      ["paymentIntents.confirm", 1, async () => assert.equal((await stripe.paymentIntents.confirm("pi_1")).status, "succeeded")],
      ["refunds.create", 1, async () => assert.equal((await stripe.refunds.create({ charge: "ch_1" })).id, "re_1")],
      ["checkout.sessions.create", 1, async () => assert.equal((await stripe.checkout.sessions.create({ mode: "payment", success_url: "https://example.com", line_items: [] })).id, "cs_1")],
      ["upload: files.create, multipart", 1, async () => assert.ok((await stripe.files.create({ purpose: "dispute_evidence", file: { data: Buffer.alloc(50000, 65), name: "a.pdf", type: "application/pdf" } })).size > 50000)],
    ];
  },
  refusal: {
    answer: { status: 429, headers: { "stripe-rate-limited-reason": "global-rate" }, body: { error: { type: "invalid_request_error", code: "rate_limit", message: "Request rate limit exceeded." } } },
    call: (base, token) => connect(base, token).customers.retrieve("cus_1"),
    check(error) {
      assert.ok(error instanceof Stripe.errors.StripeRateLimitError, `the error is ${error.type}: ${error.message}`);
    },
  },
};
