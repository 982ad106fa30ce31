// Keeps the page live: reloads its content after an event of the page's kind, and every five seconds. No library.
"use strict";
(function () {
  const state = document.getElementById("state");
  const ask = document.getElementById("ask");
  let waiting = null;
  let busy = false;
  let took = 0;
  let shown = sourceOf(document.getElementById("live"));

  // Each part as the gateway sent it: here, times and charts are written over.
  function sourceOf(live) {
    return [...live.children].map((one) => one.outerHTML);
  }

  // Replaces the parts that changed, or all of them where their number did.
  function replace(live, fresh) {
    const before = shown;
    shown = sourceOf(fresh);
    if (before.length !== shown.length || live.children.length !== shown.length) {
      live.replaceChildren(...fresh.childNodes);
      return;
    }
    const [old, made] = [[...live.children], [...fresh.children]];
    made.forEach((one, at) => { if (before[at] !== shown[at]) old[at].replaceWith(one); });
  }

  // What names a part of the page that scrolls: the same one has other rows after an update.
  function scrollerName(one) {
    const heads = [...one.querySelectorAll("thead th")].map((head) => head.textContent).join();
    const near = one.closest("[id]");
    return [near.id, one.tagName, one.className, one.getAttribute("aria-label") || heads].join("|");
  }

  function scrollers(live) {
    const found = new Map();
    for (const one of live.querySelectorAll(".card, .lanes, .scrolled, .whole, pre")) {
      const name = scrollerName(one);
      let nth = 0;
      while (found.has(name + nth)) nth += 1;
      found.set(name + nth, one);
    }
    return found;
  }

  function positionsOf(live) {
    const kept = [];
    for (const [name, one] of scrollers(live)) {
      const isAtEnd = one.matches(".lanes") && one.scrollLeft + one.clientWidth >= one.scrollWidth - 40;
      const isFocused = one === document.activeElement;
      if (one.scrollLeft || one.scrollTop || isAtEnd || isFocused) kept.push({ name, one, isAtEnd, isFocused, left: one.scrollLeft, top: one.scrollTop });
    }
    return kept;
  }

  function scrollAgain(live, kept) {
    const now = scrollers(live);
    for (const { name, one, isAtEnd, isFocused, left, top } of kept) {
      const made = now.get(name);
      if (!made || one.isConnected) continue;
      // New events come at the right end of the lanes: who looks there sees them.
      made.scrollLeft = isAtEnd ? made.scrollWidth : left;
      made.scrollTop = top;
      if (isFocused) made.focus({ preventScroll: true });
    }
  }

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
      if (sourceOf(fresh).join() === shown.join()) return;
      const kept = positionsOf(live);
      const path = active && live.contains(active) ? active.getAttribute("href") : null;
      const nth = path ? linksTo(live, path).indexOf(active) : -1;
      const open = [...live.querySelectorAll("details[id][open]")].map((one) => one.id);
      const summary = active && active.tagName === "SUMMARY" && live.contains(active) ? active.parentElement.id : "";
      const before = looked;
      replace(live, fresh);
      // What had the focus lost it.
      looked = before;
      for (const id of open) {
        const one = document.getElementById(id);
        if (one) one.open = true;
      }
      if (summary && !active.isConnected && document.getElementById(summary)) document.getElementById(summary).firstElementChild.focus({ preventScroll: true });
      scrollAgain(live, kept);
      const links = path && !active.isConnected ? linksTo(live, path) : [];
      if (links.length) links[Math.min(nth, links.length - 1)].focus({ preventScroll: true });
      localTimes();
      charts();
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

  // Made once: a page has a thousand times, and making one is dear.
  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const SHAPES = {
    minute: new Intl.DateTimeFormat("en-GB", clock),
    second: new Intl.DateTimeFormat("en-GB", { ...clock, second: "2-digit" }),
    day: new Intl.DateTimeFormat([], { day: "numeric", month: "short" }),
  };
  SHAPES.milli = SHAPES.second;

  function localTimes() {
    for (const one of document.querySelectorAll("time[data-at]")) {
      const at = new Date(Number(one.dataset.at));
      one.title = at.toISOString();
      const day = at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString("sv") + " ";
      one.textContent = day + at.toLocaleTimeString([], { hour12: false });
    }
    for (const one of document.querySelectorAll("[data-ms]")) {
      const at = new Date(Number(one.dataset.ms));
      const isWhole = "seconds" in one.dataset || (one.dataset.shape && one.dataset.shape !== "milli");
      const rest = isWhole ? "" : "." + String(at.getMilliseconds()).padStart(3, "0");
      if (one.tagName === "TIME") one.title = at.toISOString();
      const isToday = one.tagName !== "TIME" || at.toDateString() === new Date().toDateString();
      one.textContent = (isToday ? "" : SHAPES.day.format(at) + " ") + SHAPES[one.dataset.shape || "second"].format(at) + rest;
    }
    for (const one of document.querySelectorAll("[data-zone]")) one.textContent = "yours";
  }

  // What a chart says of the moment under the pointer, or of the one that arrow keys chose. Its table has the numbers.
  let looked = null;
  // What a legend shows while nothing is looked at.
  const latest = new WeakMap();

  function rowsOf(chart) {
    return [...chart.querySelectorAll("tbody tr")].reverse();
  }

  function readAt(chart, number, isKey) {
    const picture = chart.querySelector(".plot > svg");
    const rows = rowsOf(chart);
    const names = [...chart.querySelectorAll("thead th")].slice(1).map((one) => one.textContent);
    const values = [...chart.querySelectorAll("[data-value]")];
    for (const one of picture.querySelectorAll("line.at")) one.remove();
    if (number === null) {
      looked = null;
      values.forEach((one) => { if (latest.has(one)) one.replaceChildren(...latest.get(one)); });
      chart.querySelector("[data-now]").textContent = "now";
      return;
    }
    number = Math.max(0, Math.min(rows.length - 1, number));
    looked = { id: chart.id, ms: rows[number].firstElementChild.dataset.ms, isKey };
    const cells = [...rows[number].children].map((one) => one.textContent);
    values.forEach((one, at) => {
      if (!latest.has(one)) latest.set(one, [...one.childNodes]);
      one.replaceChildren(...rows[number].children[at + 1].cloneNode(true).childNodes);
    });
    chart.querySelector("[data-now]").textContent = "at " + cells[0];
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const x = ((number + 0.5) * 100) / rows.length + "%";
    for (const [name, value] of [["class", "at"], ["x1", x], ["x2", x], ["y1", 0], ["y2", 150]]) line.setAttribute(name, value);
    picture.append(line);
    picture.setAttribute("aria-valuenow", number);
    picture.setAttribute("aria-valuetext", cells[0] + ": " + names.map((name, at) => name + " " + cells[at + 1]).join(", "));
  }

  function charts() {
    for (const chart of document.querySelectorAll(".chart")) {
      const picture = chart.querySelector(".plot > svg");
      const last = rowsOf(chart).length - 1;
      // A slider through time: arrow keys move it, and what it stands on is read out.
      for (const [name, value] of [["role", "slider"], ["tabindex", 0], ["aria-valuemin", 0], ["aria-valuemax", last], ["aria-valuenow", last], ["aria-valuetext", "now"]]) picture.setAttribute(name, value);
    }
    const chart = looked && document.getElementById(looked.id);
    if (!chart) return;
    const { ms, isKey } = looked;
    const number = rowsOf(chart).findIndex((row) => row.firstElementChild.dataset.ms === ms);
    readAt(chart, number < 0 ? null : number, isKey);
    if (isKey && number >= 0) chart.querySelector(".plot > svg").focus();
  }

  addEventListener("pointermove", (event) => {
    const picture = event.target.closest && event.target.closest(".chart .plot > svg");
    if (!picture) {
      if (looked && !looked.isKey) readAt(document.getElementById(looked.id), null);
      return;
    }
    const chart = picture.closest(".chart");
    if (looked && looked.id !== chart.id) readAt(document.getElementById(looked.id), null);
    const box = picture.getBoundingClientRect();
    readAt(chart, Math.floor(((event.clientX - box.left) / box.width) * rowsOf(chart).length), false);
  });
  addEventListener("focusin", (event) => {
    const chart = event.target.matches(".chart .plot > svg") && event.target.closest(".chart");
    if (chart && !(looked && looked.id === chart.id)) readAt(chart, rowsOf(chart).length - 1, true);
  });
  addEventListener("focusout", (event) => {
    if (looked && looked.isKey && event.target.matches(".plot > svg") && event.target.isConnected) readAt(event.target.closest(".chart"), null);
  });
  addEventListener("keydown", (event) => {
    if (!event.target.matches(".chart .plot > svg")) return;
    const chart = event.target.closest(".chart");
    const rows = rowsOf(chart);
    const at = looked && looked.id === chart.id ? rows.findIndex((row) => row.firstElementChild.dataset.ms === looked.ms) : rows.length - 1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    readAt(chart, to, true);
  });

  // On a phone the links of all pages are one line, which goes on to the side.
  const here = document.querySelector("header nav [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 40;

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
  charts();
})();
