// The upstreams, all in one: an HTTP proxy on loopback that ends TLS itself. It answers each host
// of the books, and notes what should not have arrived.
import http from "node:http";
import https from "node:https";
import net from "node:net";

// Headers that may arrive beside the key. They hold no credential.
const allowed = /^(host|user-agent|accept|accept-language|content-type|content-length|content-encoding|transfer-encoding|accept-encoding|connection|expect|range|date|te|priority|pragma|cache-control|idempotency-key|prefer|content-disposition|if-.*|x-(?!forwarded|api-key|auth|shopify-access).*|amz-.*|anthropic-.*|openai-.*|notion-version|stripe-.*|client-id|content-range|origin-trial|sforce-.*|sfdc-.*|sec-.*)$/;

export class Upstream {
  books = new Map(); // by host
  seen = [];
  wrong = [];
  refuse = null; // the answer to all calls

  constructor(cert, key) {
    this.tls = https.createServer({ cert, key }, (req, res) => this.handle(req, res));
    this.plain = http.createServer((req, res) => this.handle(req, res)); // for hosts of a book on this machine
    this.proxy = http.createServer((req, res) => {
      this.wrong.push(`plain HTTP to ${req.url}`);
      res.writeHead(500).end();
    });
    this.proxy.on("connect", (req, socket) => {
      socket.on("error", () => {});
      if (!this.book(req.url.replace(/:443$/, ""))) {
        this.wrong.push(`a connection to ${req.url}`);
        socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
        return;
      }
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      this.tls.emit("connection", socket);
    });
  }

  book(host) {
    for (const [name, book] of this.books) {
      if (name === host || (name.startsWith("*.") && host.endsWith(name.slice(1)))) return book;
    }
  }

  async listen(plainPort) {
    await new Promise((done, failed) => this.proxy.listen(0, "127.0.0.1", done).on("error", failed));
    await new Promise((done, failed) => this.plain.listen(plainPort, "127.0.0.1", done).on("error", failed));
    return `http://127.0.0.1:${this.proxy.address().port}`;
  }

  close() {
    for (const server of [this.tls, this.plain, this.proxy]) {
      server.close();
      server.closeAllConnections?.();
    }
  }

  async handle(req, res) {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const host = req.headers.host;
    const book = this.book(host);
    const url = new URL(req.url, `https://${host}`);
    const body = Buffer.concat(chunks);
    const call = {
      verb: req.method, host, path: url.pathname, raw: req.url, query: url.searchParams, headers: req.headers, body,
      get json() { return JSON.parse(body.toString() || "{}"); },
      get form() { return new URLSearchParams(body.toString()); },
    };
    const line = `${req.method} ${host}${req.url}`;
    this.seen.push(line);
    if (!book) {
      this.wrong.push(`${line}: no book has this host`);
      res.writeHead(500).end();
      return;
    }
    this.check(book, call, line);
    let answer = this.refuse;
    if (!answer) {
      for (const [route, make] of book.answers) {
        const [verb, path] = route.split(" ");
        const match = (verb === "*" || verb === req.method) && new RegExp(`^${path}$`).exec(url.pathname);
        if (match) {
          call.match = match;
          answer = typeof make === "function" ? this.make(make, call, line) : { body: make };
          if (answer) break;
        }
      }
    }
    if (!answer) {
      this.wrong.push(`${line}: the simulated upstream has no such route`);
      answer = { status: 404, body: {} };
    }
    const { status = 200, headers = {}, body: text = "", stream, pause = 2 } = answer;
    const plain = typeof text === "string" || Buffer.isBuffer(text);
    res.writeHead(status, { ...(plain ? {} : { "content-type": "application/json" }), ...headers });
    if (stream) res.flushHeaders();
    for (const piece of stream ?? []) {
      await new Promise((done) => setTimeout(done, pause));
      res.write(piece);
    }
    if (status === 204 || status === 304) res.end();
    else res.end(plain ? text : JSON.stringify(text));
  }

  make(make, call, line) {
    try {
      return make(call);
    } catch (error) {
      this.wrong.push(`${line}: ${error.message}: ${call.body}`);
      return { status: 500, body: {} };
    }
  }

  // check notes a missing or foreign key, the token, and headers that tell of the proxy.
  check(book, call, line) {
    const [name, key] = book.key;
    if (call.headers[name] !== key) this.wrong.push(`${line}: ${name} is ${JSON.stringify(call.headers[name])}, not the key`);
    const whole = Buffer.concat([Buffer.from(call.raw + JSON.stringify(call.headers)), call.body]).toString("latin1");
    for (const form of forms(book.token)) {
      if (whole.includes(form)) this.wrong.push(`${line}: the token arrived`);
    }
    for (const header of Object.keys(call.headers)) {
      if (header !== name && (!allowed.test(header) || header.startsWith("sec-") && !header.startsWith("sec-fetch"))) this.wrong.push(`${line}: the header ${header} arrived`);
    }
  }
}

// forms returns a text, and what base64 makes of it at any place in a longer one.
function forms(text) {
  const all = [text, encodeURIComponent(text)];
  for (const before of ["", "x", "xx"]) {
    const encoded = Buffer.from(before + text).toString("base64");
    all.push(encoded.slice(before.length ? 4 : 0, -4));
  }
  return new Set(all);
}

// events returns server-sent events, one for each object.
export const events = (all, named = false, end = []) => ({
  headers: { "content-type": "text/event-stream" },
  stream: [...all.map((e) => `${named ? `event: ${e.type}\n` : ""}data: ${JSON.stringify(e)}\n\n`), ...end],
});

// pages returns an answer that has three pages: make gets the number of the page, from 1, and
// the cursor of the next one, or undefined.
export const pages = (cursor, make) => (call) => {
  const given = typeof cursor === "function" ? cursor(call) : call.query.get(cursor);
  const page = Number(/\d+$/.exec(given ?? "")?.[0] ?? 1);
  const answer = make(page, page < 3 ? `page-${page + 1}` : undefined, call);
  return answer.body !== undefined || answer.headers ? answer : { body: answer };
};
