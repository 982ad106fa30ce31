// Keeps the page live: reloads its content after an event of the page's kind, and every five seconds. No library.
"use strict";
(function () {
  const state = document.getElementById("state");
  const ask = document.getElementById("ask");
  let waiting = null;
  let busy = false;
  let took = 0;
  let shown = document.getElementById("live").innerHTML;

  // What somebody types in, is about to press, or has selected to copy stays as it is.
  function isInUse(live, active) {
    if (active && live.contains(active) && /^(INPUT|SELECT|BUTTON)$/.test(active.tagName)) return true;
    const selected = getSelection();
    return Boolean(selected && !selected.isCollapsed && live.contains(selected.anchorNode));
  }

  function linksTo(live, path) {
    return [...live.querySelectorAll("a")].filter((one) => one.getAttribute("href") === path);
  }

  async function readAgain() {
    const live = document.getElementById("live");
    // Records that move while somebody reads them are of no use.
    if (busy || document.hidden || "still" in live.dataset || isInUse(live, document.activeElement)) return;
    busy = true;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.redirected) { location.reload(); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      if (!fresh) throw new Error("no page");
      // Now, and not before the page was fetched: somebody may have moved on meanwhile.
      const active = document.activeElement;
      if (isInUse(live, active)) return;
      state.textContent = "live";
      if (fresh.innerHTML === shown) return;
      shown = fresh.innerHTML;
      const lanes = live.querySelector(".lanes");
      const scrolled = lanes ? lanes.scrollLeft + lanes.clientWidth >= lanes.scrollWidth - 40 : true;
      const at = lanes ? lanes.scrollLeft : 0;
      const path = active && live.contains(active) ? active.getAttribute("href") : null;
      const nth = path ? linksTo(live, path).indexOf(active) : -1;
      const open = [...live.querySelectorAll("details[id][open]")].map((one) => one.id);
      const summary = active && active.tagName === "SUMMARY" && live.contains(active) ? active.parentElement.id : "";
      live.replaceChildren(...fresh.childNodes);
      for (const id of open) {
        const one = document.getElementById(id);
        if (one) one.open = true;
      }
      if (summary && document.getElementById(summary)) document.getElementById(summary).firstElementChild.focus();
      const again = live.querySelector(".lanes");
      if (again) again.scrollLeft = scrolled ? again.scrollWidth : at;
      const links = path ? linksTo(live, path) : [];
      if (links.length) links[Math.min(nth, links.length - 1)].focus();
      localTimes();
    } catch (error) {
      state.textContent = "the gateway does not respond; trying again";
    } finally {
      took = performance.now() - began;
      busy = false;
    }
  }

  function soon() {
    // A page that is dear to read is read more seldom.
    if (waiting === null) waiting = setTimeout(() => { waiting = null; readAgain(); }, Math.max(400, 5 * took));
  }

  function localTimes() {
    for (const one of document.querySelectorAll("time[data-at]")) {
      const at = new Date(Number(one.dataset.at));
      one.title = at.toISOString();
      const day = at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString("sv") + " ";
      one.textContent = day + at.toLocaleTimeString([], { hour12: false });
    }
    for (const one of document.querySelectorAll("time[data-ms]")) {
      const at = new Date(Number(one.dataset.ms));
      one.title = at.toISOString();
      const fraction = "seconds" in one.dataset ? "" : "." + String(at.getMilliseconds()).padStart(3, "0");
      one.textContent = at.toLocaleTimeString([], { hour12: false }) + fraction;
    }
  }

  const events = document.getElementById("live").dataset.events;
  function announce(text, isGood) {
    const note = document.createElement("p");
    note.className = isGood ? "note good" : "note warn";
    note.textContent = text;
    document.querySelector(".told").replaceChildren(note);
  }

  // What shows the gateway that an act comes from a page of its own.
  function own() {
    const told = document.querySelector('meta[name="csrf-token"]');
    return told ? { "X-CSRF-Token": told.content } : {};
  }

  function reasonOf(actions) {
    const given = actions.querySelector("[data-reason]").value.trim();
    return given ? { "Oncelog-Reason": encodeURIComponent(given) } : {};
  }

  let source = null;

  function follow() {
    if (!events || source) return;
    source = new EventSource(events);
    for (const kind of ["transaction", "verified", "refused", "opened", "marker_queued", "marker_sent", "marker_failed", "marker", "shard", "hole"]) source.addEventListener(kind, soon);
  }

  function unfollow() {
    if (source) source.close();
    source = null;
  }

  // A browser has six connections to one host: a page that nobody looks at must not keep one.
  document.addEventListener("visibilitychange", () => { if (document.hidden) unfollow(); else { follow(); soon(); } });
  addEventListener("pagehide", unfollow);
  addEventListener("pageshow", follow);
  follow();
  setInterval(readAgain, 5000);

  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      ask.focus();
      ask.select();
    }
  });

  // A dot is for who has a pointer; the list tells the same.
  addEventListener("click", (event) => {
    const dot = event.target.closest("circle[data-href]");
    if (dot) location.assign(dot.dataset.href);
  });

  function openTarget() {
    const one = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    if (one && one.tagName === "DETAILS") one.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  addEventListener("click", async (event) => {
    const button = event.target.closest("[data-step]");
    if (!button) return;
    const actions = button.closest(".actions");
    const told = actions.querySelector("output");
    const isDry = button.dataset.step === "dry";
    button.disabled = true;
    try {
      const asked = JSON.parse(actions.dataset.asked);
      // The dry run of a terminate names the transaction that it saw: a later one is left alone.
      if (!isDry && actions.dataset.start) asked.start_time_ms = Number(actions.dataset.start);
      const answer = await fetch(actions.dataset.path, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...own(), ...reasonOf(actions) },
        body: JSON.stringify({ ...asked, dry_run: isDry }),
      });
      const found = await answer.json();
      told.textContent = found.detail || answer.statusText;
      if (answer.ok && isDry && found.start_time_ms !== null) {
        const act = actions.querySelector('[data-step="act"]');
        if (found.start_time_ms) actions.dataset.start = found.start_time_ms;
        act.hidden = false;
        act.focus();
      } else {
        // Above the content, which is read again in a moment.
        announce(told.textContent, answer.ok);
        told.textContent = "";
        button.blur();
        soon();
      }
    } catch (error) {
      announce("the gateway does not respond. It may have ended the transaction: look at the timeline", false);
    } finally {
      button.disabled = false;
    }
  });

  // Writes one record. What became of it is said beside the button, and the list stays as it is.
  addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-write]");
    if (!form) return;
    event.preventDefault();
    const told = form.querySelector("output");
    const button = form.querySelector("button");
    const given = new FormData(form);
    const headers = given.get("headers").split("\n").filter((line) => line.trim()).map((line) => {
      const at = line.indexOf("=");
      return at < 0 ? { name: line } : { name: line.slice(0, at), value: line.slice(at + 1) };
    });
    const body = { value: given.has("null") ? null : given.get("value"), transaction: given.get("transaction"), headers };
    if (given.get("key")) body.key = given.get("key");
    if (given.get("partition")) body.partition = Number(given.get("partition"));
    button.disabled = true;
    told.textContent = "";
    try {
      const answer = await fetch(form.dataset.write, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...own(), ...reasonOf(form) },
        body: JSON.stringify(body),
      });
      const found = await answer.json();
      told.textContent = found.detail || answer.statusText;
      if (answer.ok) {
        const link = document.createElement("a");
        link.href = "/record?" + new URLSearchParams({ topic: found.topic, partition: found.partition, offset: found.offset });
        link.textContent = "look at it";
        told.replaceChildren("Written: " + found.detail + ". ", link);
      }
    } catch (error) {
      told.textContent = "the gateway does not respond. The record may have been written: look before you write it again";
    } finally {
      button.disabled = false;
    }
  });

  // A link of another site brings no session along. This page, which is ours, does.
  const login = document.querySelector("[data-login]");
  if (login && document.referrer && new URL(document.referrer).origin !== location.origin) {
    fetch("/v1/whoami").then((answer) => { if (answer.ok) location.replace(login.dataset.login); });
  }

  const lanes = document.querySelector(".lanes");
  if (lanes) lanes.scrollLeft = lanes.scrollWidth;
  state.textContent = "live";
  localTimes();
})();
