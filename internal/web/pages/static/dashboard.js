// Keeps a page up to date: fetches it every 15 seconds while somebody looks at it, and
// puts the new main part in place of the old one. Without this the page shows the
// same; it is only as old as when it was loaded.
(() => {
  "use strict";
  const every = 15000;
  const live = document.getElementById("live");
  if (!document.querySelector("main[data-live]")) return;

  let tag = "", since = Date.now(), timer = 0, busy = false;

  // finder names an element in a way that holds in the next page.
  const finder = (e) => e.id ? `#${CSS.escape(e.id)}` :
    e.getAttribute("href") ? `${e.localName}[href="${CSS.escape(e.getAttribute("href"))}"]` : e.localName;

  // exchange puts the main part of a page in place of ours. What is focused, opened
  // or scrolled stays so.
  function exchange(text) {
    const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    const old = document.querySelector("main");
    if (!next) throw new Error("the answer is no page");
    if (next.innerHTML === old.innerHTML) return;
    const focused = old.contains(document.activeElement) ? finder(document.activeElement) : "";
    for (const d of old.querySelectorAll("details[open][id]")) {
      const same = next.querySelector(finder(d));
      if (same) same.open = true;
    }
    const top = window.scrollY;
    old.replaceWith(document.adoptNode(next));
    if (focused) document.querySelector("main").querySelector(focused)?.focus({ preventScroll: true });
    window.scrollTo({ top, behavior: "instant" });
  }

  function tell(stale) {
    live.classList.toggle("stale", stale);
    live.toggleAttribute("role", false);
    if (!stale) {
      live.textContent = live.dataset.text;
      return;
    }
    const text = `Not up to date: the server has not answered since ${new Date(since).toISOString().slice(11, 19)} UTC.`;
    if (live.textContent !== text) {
      live.setAttribute("role", "alert");
      live.textContent = text;
    }
  }

  async function refresh() {
    if (busy || document.hidden) return;
    busy = true;
    clearTimeout(timer);
    try {
      const answer = await fetch(location.href, {
        headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", signal: AbortSignal.timeout(every),
      });
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(answer.statusText);
        exchange(await answer.text());
        tag = answer.headers.get("ETag") || "";
      }
      since = Date.now();
      tell(false);
    } catch {
      tell(true);
    } finally {
      busy = false;
      timer = setTimeout(refresh, every);
    }
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    refresh();
  });
  tell(false);
  timer = setTimeout(refresh, every);
})();
