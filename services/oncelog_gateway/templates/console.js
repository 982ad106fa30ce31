// Keeps the page live: an event of the page's kind, or five seconds, and its content is read again. No library.
"use strict";
(function () {
  const state = document.getElementById("state");
  const ask = document.getElementById("ask");
  let waiting = null;
  let busy = false;

  async function readAgain() {
    const active = document.activeElement;
    const live = document.getElementById("live");
    if (busy || document.hidden || (active && live.contains(active) && /^(INPUT|SELECT|BUTTON)$/.test(active.tagName))) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      if (!fresh) throw new Error("no page");
      const lanes = live.querySelector(".lanes");
      const scrolled = lanes ? lanes.scrollLeft + lanes.clientWidth >= lanes.scrollWidth - 40 : true;
      const at = lanes ? lanes.scrollLeft : 0;
      const path = active && live.contains(active) ? active.getAttribute("href") : null;
      live.replaceChildren(...fresh.childNodes);
      const again = live.querySelector(".lanes");
      if (again) again.scrollLeft = scrolled ? again.scrollWidth : at;
      if (path) { const link = [...live.querySelectorAll("a")].find((one) => one.getAttribute("href") === path); if (link) link.focus(); }
      localTimes();
      state.textContent = "live";
    } catch (error) {
      state.textContent = "the gateway does not answer; trying again";
    } finally {
      busy = false;
    }
  }

  function soon() {
    if (waiting === null) waiting = setTimeout(() => { waiting = null; readAgain(); }, 400);
  }

  function localTimes() {
    for (const one of document.querySelectorAll("time[data-ms]")) {
      const at = new Date(Number(one.dataset.ms));
      one.title = at.toISOString();
      one.textContent = at.toLocaleTimeString([], { hour12: false }) + "." + String(at.getMilliseconds()).padStart(3, "0");
    }
  }

  const events = document.getElementById("live").dataset.events;
  if (events) {
    const source = new EventSource(events);
    for (const kind of ["transaction", "verified", "refused", "opened", "marker_queued", "marker_sent", "marker_failed", "marker", "shard", "hole"]) source.addEventListener(kind, soon);
    addEventListener("pagehide", () => source.close());
  }
  setInterval(readAgain, 5000);

  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      ask.focus();
      ask.select();
    }
  });

  addEventListener("click", async (event) => {
    const button = event.target.closest("[data-step]");
    if (!button) return;
    const actions = button.closest(".actions");
    const told = actions.querySelector("output");
    const isDry = button.dataset.step === "dry";
    button.disabled = true;
    try {
      const answer = await fetch(actions.dataset.terminate, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ dry_run: isDry }),
      });
      const found = await answer.json();
      told.textContent = found.detail || answer.statusText;
      if (answer.ok && isDry) { const act = actions.querySelector('[data-step="act"]'); act.hidden = false; act.focus(); }
      else { button.blur(); soon(); }
    } catch (error) {
      told.textContent = "the gateway does not answer; whether it acted is not known: look at the timeline";
    } finally {
      button.disabled = false;
    }
  });

  const lanes = document.querySelector(".lanes");
  if (lanes) lanes.scrollLeft = lanes.scrollWidth;
  localTimes();
})();
