// Every session, latest activity first.

import { byId, count, el, fill, visible } from "./dom.js";

const base = document.documentElement.dataset.base;
const date = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
let entries = [];

function show() {
  const wanted = byId("filter").value.toLowerCase();
  const fits = entries.filter((e) => [e.session, e.question, e.status, e.policy].some((t) => t.toLowerCase().includes(wanted)));
  byId("about").textContent = `${count(fits.length)} of ${count(entries.length)}`;
  fill(byId("list"), fits.map((e) => el("li", {},
    el("a", { href: `${base}/s/${encodeURIComponent(e.session)}` }, el("strong", {}, visible(e.question) || "nothing was asked yet")),
    el("p", { class: "quiet" }, `${e.session}`, el("span", { class: "tag" }, e.status),
      ` ${count(e.steps)} steps, ${e.policy || "no policy"}, ${date.format(new Date(1000 * e.last_activity))}`))),
  fits.length ? null : el("li", { class: "quiet" }, "No session."));
}

async function load() {
  const answer = await fetch(`${base}/api/sessions`, { credentials: "same-origin" });
  entries = await answer.json();
  show();
  document.documentElement.dataset.ready = "1";
}

byId("filter").addEventListener("input", show);
load().catch((fault) => { byId("about").textContent = fault.message; });
