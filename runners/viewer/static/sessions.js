// Every session, latest activity first.

import { byId, count, el, fill, many, visible } from "./dom.js";

const base = document.documentElement.dataset.base;
const date = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
let entries = [];

const asked = (e) => el("strong", {}, e.status === "broken" ? "cannot be read" : visible(e.question) || "nothing was asked yet");

function show() {
  const wanted = byId("filter").value.toLowerCase();
  const fits = entries.filter((e) => [e.session, e.question, e.status, e.policy].some((t) => t.toLowerCase().includes(wanted)));
  byId("about").textContent = `${count(fits.length)} of ${count(entries.length)}`;
  fill(byId("list"), fits.map((e) => el("li", {},
    e.opens && e.status !== "broken" ? el("a", { class: "clip", href: `${base}/s/${encodeURIComponent(e.session)}` }, asked(e)) : asked(e),
    el("p", { class: "quiet" }, visible(e.session), el("span", { class: `tag status-${/^[a-z_]+$/.test(e.status) ? e.status : "other"}` }, e.status),
      e.status === "broken" ? " " : ` ${many(e.steps, "step")}, ${visible(e.policy) || "no policy"}, `, date.format(new Date(1000 * e.last_activity))))),
  fits.length ? null : el("li", { class: "quiet" }, entries.length ? "None fits." : "There is no session yet: longstride run begins one."));
}

async function load() {
  const answer = await fetch(`${base}/api/sessions`, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`the server said ${answer.status}`);
  entries = await answer.json();
  show();
  document.documentElement.dataset.ready = "1";
}

byId("filter").addEventListener("input", show);
load().catch((fault) => { byId("about").textContent = fault.message; });
