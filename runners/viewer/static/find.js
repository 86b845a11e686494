// Search in the run.

import { el, fill, many, visible } from "./dom.js";

export function findPanel(place, source, open) {
  const found = el("ul", { class: "found", "aria-live": "polite" });
  let turn = 0;
  const look = async () => {
    const wanted = input.value.trim();
    const mine = ++turn;
    if (wanted.length < 2) return fill(found);
    let hits;
    try {
      hits = await source.search(wanted);
    } catch (fault) {
      return mine === turn && fill(found, el("li", { class: "note" }, fault.message));
    }
    if (mine !== turn) return;
    fill(found, el("li", { class: "quiet" }, hits.length ? `in ${many(hits.length, "chunk")}` : "nothing found"), hits.map((hit) => el("li", {},
      el("button", { type: "button", class: "cite", on: { click: () => open(hit.chunk, hit.match ?? literal(hit.passage, wanted)) } }, `c${hit.chunk}`),
      " ", highlighted(hit.passage, wanted))));
  };
  let waiting = 0;
  const input = el("input", { type: "search", id: "search", placeholder: "a word, a number, a name", "aria-label": "search in the run", autocomplete: "off",
    on: { input: () => { clearTimeout(waiting); waiting = setTimeout(look, 120); }, keydown: (event) => event.key === "Enter" && look() } });
  fill(place, el("h2", {}, "Search"), input, found);
  return input;
}

function literal(passage, wanted) {
  const at = passage.toLowerCase().indexOf(wanted.toLowerCase());
  return at < 0 ? "" : passage.slice(at, at + wanted.length);
}

function highlighted(passage, wanted) {
  const at = passage.toLowerCase().indexOf(wanted.toLowerCase());
  if (at < 0) return visible(passage);
  return [visible(passage.slice(0, at)), el("mark", {}, visible(passage.slice(at, at + wanted.length))), visible(passage.slice(at + wanted.length))];
}
