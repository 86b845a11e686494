// Codes of the grid: levels from 0, and what is beside them.

import { el } from "./dom.js";

export const ABSENT = -9, HIDDEN = -2, FOLDED = -1, RECENT = 4;

export const LEVELS = new Map([
  [3, { name: "full", about: "whole" }],
  [2, { name: "detailed", about: "long summary" }],
  [1, { name: "brief", about: "short summary" }],
  [0, { name: "placeholder", about: "one line" }],
  [FOLDED, { name: "folded", about: "inside a range line" }],
  [HIDDEN, { name: "not shown", about: "dropped, or covered by a block" }],
  [RECENT, { name: "recent", about: "the newest steps, whole" }],
]);

const SLUGS = new Map([[3, "full"], [2, "detailed"], [1, "brief"], [0, "placeholder"], [FOLDED, "folded"], [HIDDEN, "hidden"], [RECENT, "recent"]]);

export const levelName = (code) => LEVELS.get(code)?.name ?? "not there yet";
export const levelClass = (code) => `level-${SLUGS.get(code) ?? "absent"}`;

export function chip(code, text) {
  return el("span", { class: "chip" }, el("span", { class: `swatch ${levelClass(code)}` }), text ?? levelName(code));
}

let paints = null;

// Colours live in the style sheet; a change of theme drops what was read.
export function colours() {
  if (paints) return paints;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  paints = { levels: new Map(), words: new Map() };
  for (const [code, slug] of SLUGS) {
    const text = read(`--${slug}`);
    paints.levels.set(code, text);
    const value = parseInt(text.slice(1), 16);
    paints.words.set(code, (255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16));
  }
  for (const name of ["ink", "soft", "line", "paper", "fixed", "accent", "warn"]) paints[name] = read(`--${name}`);
  return paints;
}

export function forgetColours() {
  paints = null;
}
