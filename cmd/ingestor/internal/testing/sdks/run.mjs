// Lets public SDKs call through `ingestor proxy`, with the built-in price books as they are, and
// prints a table. Each SDK has a file in books.
//
//   node run.mjs INGESTOR FOLDER [BOOK...]
//
// FOLDER is empty. It gets the configuration and the ledger. With VERBOSE=1, errors have their traces.
// With GO_SDKS, a program built from the folder go, the SDKs for Go call, in place of those of npm.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { Upstream } from "./upstream.mjs";

const [ingestor, folder, ...wanted] = process.argv.slice(2);
const here = path.dirname(new URL(import.meta.url).pathname);
const books = {};
for (const entry of fs.readdirSync(path.join(here, "books"))) {
  const name = path.basename(entry, ".mjs");
  if (wanted.length === 0 || wanted.includes(name)) books[name] = (await import(`./books/${entry}`)).default;
}

const file = (name) => path.join(folder, name);
const names = Object.values(books).flatMap((book) => book.hosts).filter((host) => !host.includes(":"));
execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=upstream",
  "-keyout", file("key.pem"), "-out", file("cert.pem"), "-addext", `subjectAltName=${names.map((host) => `DNS:${host}`)}`], { stdio: "ignore" });
const upstream = new Upstream(fs.readFileSync(file("cert.pem")), fs.readFileSync(file("key.pem")));
const outside = await upstream.listen(books["openai-compatible"] ? 4000 : 0); // the port in that book
const config = { costs: "costs.yaml", tokens: {}, keys: {} };
for (const [name, book] of Object.entries(books)) {
  book.token = `a-token-of-${name}-0123456789-abcdefghijklm`;
  for (const host of book.hosts) upstream.books.set(host, book);
  fs.writeFileSync(file(`${name}.token`), book.token, { mode: 0o600 });
  fs.writeFileSync(file(`${name}.key`), book.key[1], { mode: 0o600 });
  config.tokens[name] = { file: `${name}.token`, calls: { upstreams: [name], accounts: [book.account ?? "default"] } };
  if (name !== "youtube") config.keys[book.account ? `${name}@${book.account}` : name] = { file: `${name}.key` };
}
fs.writeFileSync(file("ingestor.yaml"), JSON.stringify(config));
const based = Object.keys(books).map((name) => (name === "youtube" ? "builtin" : `builtin/${name}`));
fs.writeFileSync(file("costs.yaml"), JSON.stringify({ extends: based }));

// start runs a proxy, and returns its address. Calls through it wait for units.
const running = [];
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
async function start(wait) {
  const child = spawn(ingestor, ["proxy", "--proxy-listen", "127.0.0.1:0", "--proxy-wait", wait], {
    cwd: folder, stdio: ["ignore", "pipe", fs.openSync(file(`proxy-${wait}.log`), "w")],
    env: {
      PATH: process.env.PATH, HOME: folder, XDG_STATE_HOME: file("state"), HTTPS_PROXY: outside, SSL_CERT_FILE: file("cert.pem"),
      YOUTUBE_API_KEY: books.youtube?.key[1] ?? "", INGESTOR_LOG_FORMAT: "text",
    },
  });
  running.push(child);
  return await new Promise((done, failed) => {
    child.on("exit", (code) => failed(new Error(`the proxy ended with ${code}: ${fs.readFileSync(file(`proxy-${wait}.log`))}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(line);
      if (address) done(address[0]);
    });
  });
}

// within bounds a call, which otherwise might wait for ever.
const within = (promise, what) => {
  let timer;
  const late = new Promise((_, failed) => { timer = setTimeout(() => failed(new Error(`${what} took a minute`)), 60_000); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

// why is what went wrong in one line.
function why(error) {
  const all = [];
  for (let e = error; e && all.length < 3; e = e.cause) all.push(String(e.message ?? e).split("\n")[0]);
  return all.join(": ").slice(0, 400);
}

// version is that of an SDK as it is installed.
const version = (sdk) => JSON.parse(fs.readFileSync(path.join(here, "node_modules", sdk, "package.json"))).version;

// inGo is a book whose calls are made by an SDK for Go.
function inGo(name, book, { sdk, calls }) {
  const make = async (base, token, call) => {
    try {
      await promisify(execFile)(process.env.GO_SDKS, ["call", name, base, token, call]);
    } catch (error) {
      throw new Error(error.stderr || error.message);
    }
  };
  return {
    ...book, label: sdk,
    calls: (base, token) => calls.map(([call, requests]) => [call, requests, () => make(base, token, call)]),
    refusal: { answer: book.refusal.answer, call: (base, token) => make(base, token, "refused").then(() => { throw new Error("refused, as it should be"); }), check: (error) => assert.match(error.message, /as it should be/) },
  };
}

// run makes the calls of one SDK.
async function run(name, book, addresses) {
  const row = { sdk: book.label ?? `${book.sdk} ${version(book.sdk)}`, calls: 0, passed: 0, pages: 0, failed: [] };
  const attempt = async (what, requests, call) => {
    row.calls++;
    upstream.seen.length = upstream.wrong.length = 0;
    try {
      await within(call(), what);
      assert.deepEqual(upstream.wrong, []);
      assert.equal(upstream.seen.length, requests, `${upstream.seen.length} requests arrived, not ${requests}: ${upstream.seen}`);
      row.passed++;
      if (requests > 1 && !what.startsWith("upload")) row.pages += requests;
    } catch (error) {
      row.failed.push(`${what}: ${[why(error), ...upstream.wrong].join("; ")}`);
      if (process.env.VERBOSE) console.error(name, what, error, upstream.wrong);
    }
  };
  const fetched = globalThis.fetch;
  try {
    for (const [what, requests, call] of book.calls(addresses[0], book.token, name)) await attempt(what, requests, call);
    // The upstream refuses once, which shuts its pools. The next call is refused by the proxy.
    for (const [who, requests] of [["upstream", 1], ["proxy", 0]]) {
      if (who === "proxy" && book.refusal.waits) { // the SDK makes no error of it
        await attempt("refused by the proxy, and waits", 1, () => book.refusal.waits(addresses[1], book.token));
        break;
      }
      await attempt(`refused by the ${who}`, requests, async () => {
        upstream.refuse = book.refusal.answer;
        try {
          let error;
          for (let i = 0; i === 0 || i < 5 && upstream.seen.length > requests; i++) { // a block of a second may be over
            upstream.seen.length = 0;
            error = await book.refusal.call(addresses[1], book.token, name).then(() => null, (error) => error);
          }
          assert.ok(error, "the SDK made no error of the refusal");
          book.refusal.check(error);
        } finally {
          upstream.refuse = null;
        }
      });
    }
  } finally {
    globalThis.fetch = fetched;
  }
  return row;
}

let failed = 0;
try {
  const addresses = await within(Promise.all([start("20s"), start("0s")]), "the start of the proxies");
  console.log("| book | SDK and version | calls | passed | pages | base URL | what failed, and why |\n|---|---|---|---|---|---|---|");
  const go = process.env.GO_SDKS && JSON.parse(execFileSync(process.env.GO_SDKS, ["list"]));
  for (const [name, book] of Object.entries(books)) {
    for (const one of go ? (go[name] ? [inGo(name, book, go[name])] : []) : [book, ...(book.also ?? [])]) {
      const row = await run(name, { token: book.token, ...one }, addresses);
      failed += row.failed.length;
      console.log(`| ${name} | ${row.sdk} | ${row.calls} | ${row.passed} | ${row.pages} | ${(!go && one.base) || "setting"} | ${row.failed.join("<br>").replaceAll("|", "\\|") || "-"} |`);
    }
  }
} finally {
  const ended = running.map((child) => new Promise((done) => child.removeAllListeners("exit").on("exit", done)));
  for (const child of running) child.kill("SIGTERM");
  await within(Promise.all(ended), "the end of the proxies");
  upstream.close();
}
process.exit(failed ? 1 : 0);
