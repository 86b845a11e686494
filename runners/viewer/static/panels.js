// What stands beside the drawings: the step, the chunk, the answer.

import { chunkFigures, because } from "./explain.js";
import { cachedShare } from "./canvas.js";
import { count, el, facts, figure, fill, money, share, visible } from "./dom.js";
import { RECENT, chip, levelClass, levelName } from "./levels.js";

const SECTIONS = [
  ["system, question, tools", (p) => p.fixed, "level-fixed"],
  ["range lines and placeholders", (p) => p.byLevel[0], "level-placeholder"],
  ["brief", (p) => p.byLevel[1], "level-brief"],
  ["detailed", (p) => p.byLevel[2], "level-detailed"],
  ["full", (p) => p.byLevel[3], "level-full"],
  ["recent steps", (p) => p.recent, "level-recent"],
];

// A bar of one context by section, against its budget. Widths go through the style object, which the policy allows.
export function meter(sections, budget, label) {
  const used = sections.reduce((sum, [, size]) => sum + size, 0);
  const scale = Math.max(budget, used, 1);
  const bar = el("div", { class: "meter", role: "img", "aria-label": label });
  for (const [name, size, slug] of sections) {
    if (!size) continue;
    const part = el("span", { class: slug, title: `${name}: ${count(size)} tokens` });
    part.style.width = `${(100 * size) / scale}%`;
    bar.append(part);
  }
  return bar;
}

// `decision`: undefined while it is not known yet, null where there is none.
export function stepPanel(place, row, decision, open) {
  if (!row) return fill(place, el("p", { class: "quiet" }, "No step has been taken yet."));
  const plan = row.plan;
  fill(
    place,
    el("h2", {}, `Step ${row.step}`, row.kind ? el("span", { class: "tag" }, row.kind) : el("span", { class: "tag" }, "under way")),
    row.line && el("p", { class: "line" }, visible(row.line)),
    row.url && el("p", { class: "address" }, visible(row.url)),
    row.kind && el("p", {}, el("button", { type: "button", on: { click: () => open(row.step) } }, `Read c${row.step}`)),
    plan ? context(row, plan, decision) : el("p", { class: "quiet" }, "No context was built for this step."),
  );
}

function context(row, plan, decision) {
  const sections = SECTIONS.map(([name, read, slug]) => [name, read(plan) ?? 0, slug]);
  const cached = cachedShare(row);
  const fit = plan.unfitted > plan.tokens;
  return [
    el("h3", {}, "The context it was taken from"),
    el("p", { class: "big" }, count(plan.tokens), el("small", {}, ` of ${count(plan.budget)} tokens`)),
    meter(sections, plan.budget, `${plan.tokens} of ${plan.budget} tokens`),
    el("table", { class: "sections" }, el("tbody", {}, sections.filter((s) => s[1]).map(([name, size, slug]) =>
      el("tr", {}, el("td", {}, el("span", { class: `swatch ${slug}` })), el("td", {}, name), el("td", { class: "number" }, count(size)))))),
    facts([
      ["policy", plan.policy],
      ["pressure", figure(plan.pressure, 2)],
      ["thresholds", plan.thresholds ? plan.thresholds.map((t) => figure(t, 2)).join(" · ") : "none"],
      ["planned", count(plan.unfitted) + " tokens"],
      ["fit", fit ? `cut ${count(plan.unfitted - plan.tokens)} tokens` : "changed nothing"],
      ["spend", decision?.spent ? `added ${count(decision.spent)} tokens` : undefined],
      ["recent window", plan.cap ? `clipped to ${plan.cap} tokens a text` : `from c${plan.recentFrom}, whole`],
      ["blocks", plan.blocks.length ? plan.blocks.join(", ") : undefined],
      ["similarity", plan.scored ? `mean ${figure(plan.mean)}, spread ${figure(plan.spread)}` : "no query vector: by age"],
      ["cached", cached == null ? "unknown" : `${share(cached)} ${row.usage?.cached != null ? "(provider)" : "(same beginning as before)"}`],
      ["tokens in, out", row.usage ? `${count(row.usage.input)}, ${count(row.usage.output)}` : "unknown"],
      ["cost", row.usage ? money(row.usage.cost) : "unknown"],
      ["upper bound", decision?.bound != null ? `${figure(decision.objective)} of at most ${figure(decision.bound)}` : undefined],
    ]),
    decision && !decision.problem && !decision.same && el("p", { class: "note" },
      "Decided again now, this step comes out otherwise than recorded: its settings have changed since, or its texts were compacted."),
  ];
}

export function chunkPanel(place, state) {
  const { number, step, chunk, decision, level, pick, jump, raw, quote } = state;
  if (!chunk) return fill(place, el("p", { class: "quiet" }, `c${number} is not stored yet.`));
  const figures = decision ? chunkFigures(decision, number) : null;
  fill(
    place,
    el("h2", {}, `c${number}`, el("span", { class: "tag" }, chunk.kind), chunk.errors.map((e) => el("span", { class: "tag bad" }, e))),
    sources(chunk.sources),
    at(number, step, figures, decision),
    el("h3", {}, "Its text"),
    tabs(chunk, level, pick),
    text(chunk, level, quote),
    el("p", { class: "row" },
      el("button", { type: "button", on: { click: () => jump(number) } }, `Go to step ${number}`),
      raw && el("a", { href: raw, download: `c${number}.txt` }, "Download it whole")),
  );
}

// A search has many: the first few stand there, the rest unfold.
function sources(all) {
  const lines = all.map((s) => el("p", { class: "address" }, s.title ? `${visible(s.title)}  ` : "", visible(s.url)));
  if (lines.length <= 4) return lines;
  return [lines.slice(0, 3), el("details", {}, el("summary", { class: "quiet" }, `and ${lines.length - 3} more`), lines.slice(3))];
}

function at(number, step, figures, decision) {
  if (number >= step) return el("p", { class: "quiet" }, `At step ${step} it was not there yet.`);
  if (decision?.problem) return el("p", { class: "quiet" }, decision.problem);
  if (!decision) return el("p", { class: "quiet" }, `No context was built for step ${step}.`);
  if (!figures) return el("p", {}, chip(RECENT), ` at step ${step}: the newest steps are whole in every context.`);
  return [
    el("h3", {}, `At step ${step}: `, chip(figures.code)),
    el("ul", { class: "why" }, because(decision, figures).map((line) => el("li", {}, line))),
    facts([
      ["score (cosine)", figure(figures.cosine)],
      ["value", figure(figures.value)],
      ["planned", levelName(figures.planned)],
      ["tokens here", count(figures.cost)],
      ["gain per token", figures.perToken == null ? "none" : figures.perToken.toPrecision(3)],
      ["kept of it", share(figures.share)],
    ]),
  ];
}

const ORDER = [["full", 3], ["detailed", 2], ["brief", 1], ["placeholder", 0]];

function tabs(chunk, level, pick) {
  return el("div", { class: "tabs small", role: "tablist" }, ORDER.map(([name, code], place) =>
    el("button", {
      type: "button", role: "tab", "aria-selected": String(name === level), title: `key ${place + 1}`,
      on: { click: () => pick(name) },
    }, el("span", { class: `swatch ${levelClass(code)}` }), name,
    el("small", {}, chunk.tokens[name] == null ? " –" : ` ${count(chunk.tokens[name])}`))));
}

function text(chunk, level, quote) {
  const { texts } = chunk;
  const body = texts[level];
  if (body == null) return el("p", { class: "quiet" }, "There is no such summary of this chunk.");
  const about = [];
  if (texts[`${level}By`]) about.push(`by ${texts[`${level}By`]}`);
  if (texts[`${level}From`] != null) about.push(`in use from step ${texts[`${level}From`]}`);
  if (texts[`${level}Fidelity`] != null) about.push(`fidelity ${figure(texts[`${level}Fidelity`], 2)}`);
  if (level === "full" && texts.chars > body.length) about.push(`${count(body.length)} of ${count(texts.chars)} characters`);
  return [
    about.length ? el("p", { class: "quiet" }, about.join(", ")) : null,
    el("pre", { class: "text", tabindex: "0" }, marked(body, quote)),
  ];
}

// The quoted passage stands out; everything stays text.
function marked(body, quote) {
  const from = quote ? body.indexOf(quote) : -1;
  if (from < 0) return visible(body);
  const to = from + quote.length;
  return [visible(body.slice(0, from)), el("mark", { id: "quoted" }, visible(body.slice(from, to))), visible(body.slice(to))];
}

const CITED = /\[(c\d{1,12}(?:\s*,\s*c\d{1,12})*)\]/g;

export function answerPanel(place, head, open) {
  const asked = new Map(head.questions.map((q) => [q.from, q.text]));
  fill(
    place,
    el("h2", {}, "Questions and answers"),
    head.questions.length ? null : el("p", { class: "quiet" }, "Nothing was asked."),
    [...asked].map(([from, question], at) => {
      const until = [...asked.keys()][at + 1] ?? Infinity;
      const found = head.answers.filter((a) => a.step >= from && a.step < until);
      return [
        el("h3", { class: "question" }, visible(question)),
        found.length ? found.map((answer) => answered(answer, open)) : el("p", { class: "quiet" }, `No answer: ${head.status}.`),
      ];
    }),
    facts([
      ["status", head.status], ["steps", count(head.steps)], ["policy", head.policy],
      ["tokens in, out", `${count(head.total.input)}, ${count(head.total.output)}`],
      ["cached", head.total.input && head.total.cached != null ? share(head.total.cached / head.total.input) : "unknown"],
      ["cost", money(head.total.cost)],
    ]),
  );
}

function answered(answer, open) {
  const known = new Map(answer.citations.map((c) => [c.chunk, c]));
  const parts = [];
  let end = 0;
  for (const match of answer.text.matchAll(CITED)) {
    parts.push(visible(answer.text.slice(end, match.index)));
    for (const name of match[1].split(",")) {
      const cited = known.get(Number(name.trim().slice(1)));
      parts.push(el("button", {
        type: "button", class: "cite", disabled: !cited?.found, on: { click: () => open(cited.chunk, cited.quote) },
      }, name.trim()));
    }
    end = match.index + match[0].length;
  }
  parts.push(visible(answer.text.slice(end)));
  return [
    el("div", { class: "answer" }, parts),
    el("ul", { class: "citations" }, answer.citations.map((c) => el("li", {},
      el("button", { type: "button", class: "cite", disabled: !c.found, on: { click: () => open(c.chunk, c.quote) } }, `c${c.chunk}`),
      c.found ? [c.title ? ` ${visible(c.title)}` : "", c.url ? el("span", { class: "address" }, ` ${visible(c.url)}`) : "", el("blockquote", {}, visible(c.quote))]
        : " cites nothing that is stored"))),
  ];
}
