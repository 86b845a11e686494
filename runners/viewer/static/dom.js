// Elements. Texts of a session enter the page here, as text nodes, and nowhere else.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, String(value));
  }
  put(made, children);
  return made;
}

function put(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(parent, ...children) {
  parent.textContent = "";
  put(parent, children);
}

export const byId = (id) => document.getElementById(id);

const WHOLE = new Intl.NumberFormat("en");

export const count = (value) => (value == null ? "unknown" : WHOLE.format(Math.round(value)));
export const many = (value, what) => `${count(value)} ${what}${value === 1 ? "" : "s"}`;
export const share = (value) => (value == null ? "unknown" : `${(100 * value).toFixed(1)} %`);
export const figure = (value, digits = 3) => (value == null || Number.isNaN(value) ? "none" : value.toFixed(digits));
export const money = (value) => (value == null ? "unknown" : `$${value.toFixed(value < 0.1 ? 4 : 2)}`);

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== false);
  return el("dl", { class: "facts" }, shown.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// What is invisible, or turns the direction of writing, is shown by its number.
export function visible(text) {
  const odd = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
  return text.replace(odd, (sign) => `\u27e8U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}
