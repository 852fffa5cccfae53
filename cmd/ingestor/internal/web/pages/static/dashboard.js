// Keeps a page up to date: fetches it every 15 seconds while somebody looks at it, and once
// a minute in the background, for the title and the icon of its tab. It puts the new main
// part in place of the old one. Without this the page shows the same; it is only as old as
// when it was loaded. Writes times in the time zone of the reader, with UTC in their
// tooltips.
(() => {
  "use strict";
  const every = 15000, hidden = 60000;
  const live = document.getElementById("live");

  const clock = (t) => t.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

  // stamp writes a time, with its day if that is not the day of the page.
  function stamp(t, now) {
    const day = (d) => new Date(d.getFullYear(), d.getMonth(), d.getDate(), 12);
    const off = Math.round((day(t) - day(now)) / 864e5);
    const word = { 0: "", 1: " tomorrow", [-1]: " yesterday" }[off];
    if (word !== undefined) return clock(t) + word;
    const year = t.getFullYear() === now.getFullYear() ? undefined : "numeric";
    return `${clock(t)} on ${t.toLocaleDateString("en-GB", { day: "numeric", month: "long", year })}`;
  }

  // localize writes the times of a page in the time zone of the reader.
  function localize(page) {
    const now = new Date(page.querySelector("main").dataset.now);
    for (const e of page.querySelectorAll("time[datetime]")) {
      e.title = e.textContent;
      e.textContent = stamp(new Date(e.dateTime), now);
    }
    for (const e of page.querySelectorAll("svg [data-at]")) e.textContent = clock(new Date(e.dataset.at));
    const title = page.querySelector("title");
    if (title.dataset.at) title.textContent = title.textContent.replace(title.dataset.text, stamp(new Date(title.dataset.at), now));
    page.getElementById("zone").textContent = "Times are local; point at one for UTC.";
    return page;
  }

  localize(document);
  if (!document.querySelector("main[data-live]")) return;

  let tag = "", since = new Date(), timer = 0, busy = false;

  // The icon of a page that is not up to date, kept because its server may be gone by then.
  let icon = "";
  fetch("/static/icon-stale.svg").then((a) => a.text()).then((t) => { icon = `data:image/svg+xml,${encodeURIComponent(t)}`; }, () => {});

  // finder names an element in a way that holds in the next page.
  const finder = (e) => e.id ? `#${CSS.escape(e.id)}` :
    e.getAttribute("href") ? `${e.localName}[href="${CSS.escape(e.getAttribute("href"))}"]` : e.localName;

  // exchange puts the main part of a page in place of ours. What is focused, opened
  // or scrolled stays so.
  function exchange(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const next = page.querySelector("main");
    const old = document.querySelector("main");
    if (!next) throw new Error("the answer is no page");
    localize(page);
    document.title = page.title;
    document.querySelector("link[rel=icon]").href = page.querySelector("link[rel=icon]").getAttribute("href");
    document.querySelector("footer time").replaceWith(document.adoptNode(page.querySelector("footer time")));
    if (next.innerHTML === old.innerHTML) return;
    const focused = old.contains(document.activeElement) ? finder(document.activeElement) : "";
    for (const d of old.querySelectorAll("details[id]")) {
      const same = next.querySelector(finder(d));
      if (same) same.open = d.open;
    }
    const top = window.scrollY;
    old.replaceWith(document.adoptNode(next));
    if (focused) document.querySelector("main").querySelector(focused)?.focus({ preventScroll: true });
    window.scrollTo({ top, behavior: "instant" });
  }

  // tell says above everything else, and in the tab, why the page is not up to date. The next
  // page takes its place.
  function tell(why) {
    const main = document.querySelector("main");
    const text = `Not up to date since ${clock(since)}`;
    let alert = document.getElementById("stale");
    if (!alert) {
      alert = document.createElement("p");
      alert.id = "stale";
      alert.className = "card problem";
      alert.setAttribute("role", "alert");
      main.prepend(alert);
      main.querySelector(".verdict")?.classList.add("stale");
      const word = main.querySelector(".word");
      if (word) word.textContent = text;
      document.title = `${text} - Headroom`;
      if (icon) document.querySelector("link[rel=icon]").href = icon;
      live.textContent = "";
      tag = "";
    }
    if (alert.textContent !== `${text}: ${why}.`) alert.textContent = `${text}: ${why}.`;
  }

  // again asks again after a while.
  function again(wait) {
    clearTimeout(timer);
    timer = setTimeout(refresh, wait);
  }

  async function refresh() {
    if (busy) return;
    busy = true;
    let wait = 0;
    try {
      const answer = await fetch(location.href, {
        headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", signal: AbortSignal.timeout(every),
      });
      if (answer.status === 429) {
        wait = Math.max(every, 1000 * Number(answer.headers.get("Retry-After")) || 0);
        tell(`too many requests; this page asks again at ${clock(new Date(Date.now() + wait))}`);
      } else if (answer.status !== 304 && !answer.ok) {
        tell("the server answers with an error");
      } else {
        if (answer.status !== 304) {
          exchange(await answer.text());
          tag = answer.headers.get("ETag") || "";
        }
        since = new Date();
        live.textContent = live.dataset.text;
      }
    } catch {
      tell("the server does not answer");
    } finally {
      busy = false;
      again(wait || (document.hidden ? hidden : every));
    }
  }

  document.addEventListener("visibilitychange", () => document.hidden ? again(hidden) : refresh());
  live.textContent = live.dataset.text;
  again(every);
})();
