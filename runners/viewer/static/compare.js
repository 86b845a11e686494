// What if: the step in view under another budget or policy, beside what was recorded or beside a second policy.

import { meter } from "./panels.js";
import { count, el, figure, fill, many } from "./dom.js";
import { FOLDED, HIDDEN, chip, colours, levelName } from "./levels.js";
import { sized } from "./canvas.js";

const SQUARE = 11;

export class Compare {
  // `show`: is told the codes that the first side comes to, or null.
  constructor(place, source, { show, open }) {
    Object.assign(this, { place, source, show, open, results: [null, null] });
  }

  async start(head, policies) {
    this.head = head;
    this.policies = policies;
    this.sides = [this.side("A", ""), this.side("B", "")];
    this.strips = [0, 1].map(() => el("canvas", { class: "strip", tabindex: "0", role: "img" }));
    this.said = [0, 1].map(() => el("div", { class: "outcome", "aria-live": "polite" }));
    this.differences = el("div", { class: "differences" });
    this.strips.forEach((strip, at) => strip.addEventListener("click", (event) => this.pickIn(at, event)));
    fill(
      this.place,
      el("h2", {}, "What if"),
      el("p", { class: "quiet" }, "The step in view, planned again from what the session held then. No model is asked and nothing is stored."),
      [0, 1].map((at) => el("section", { class: "side" }, this.sides[at].box, this.said[at], this.strips[at])),
      this.differences,
    );
  }

  side(name, policy) {
    const self = { lambda: null, tau: null };
    const changed = () => this.soon();
    const names = [["", "as recorded"], ...this.policies.map((p) => [p.name, p.name])];
    self.policy = el("select", { "aria-label": `policy ${name}`, on: { change: () => { this.options(self); changed(); } } },
      names.map(([value, text]) => el("option", { value, selected: value === policy }, text)));
    const moved = () => { this.label(self); changed(); };
    self.budget = el("input", { type: "range", min: 0, max: 100, value: 100, "aria-label": `budget ${name}`, on: { input: moved } });
    self.budgetText = el("output", {});
    self.options = el("div", { class: "options" });
    self.layout = el("select", { "aria-label": `layout ${name}`, on: { change: changed } },
      ["", "interleaved", "ledger"].map((value) => el("option", { value }, value || "layout as recorded")));
    self.box = el("fieldset", { class: "controls" }, el("legend", {}, name),
      el("label", {}, "policy ", self.policy), el("label", {}, "budget ", self.budget, self.budgetText), self.options, el("label", {}, self.layout));
    this.options(self);
    return self;
  }

  // lambda and tau, where the policy has them
  options(self) {
    const known = self.policy.value ? this.policies.find((p) => p.name === self.policy.value)?.options : this.head.options;
    self.inputs = new Map();
    const offered = ["lambda", "tau"].filter((name) => known?.[name] != null).map((name) => ({ name, value: known[name] }));
    fill(self.options, offered.map((option) => {
      const most = option.name === "lambda" ? 2 : 1.5;
      const shown = el("output", {}, figure(option.value, 2));
      const input = el("input", {
        type: "range", min: option.name === "tau" ? 0.02 : 0, max: most, step: 0.02, value: option.value, "aria-label": option.name,
        on: { input: () => { shown.textContent = figure(Number(input.value), 2); input.dataset.moved = "1"; this.soon(); } },
      });
      self.inputs.set(option.name, input);
      return el("label", {}, `${option.name} `, input, shown);
    }));
  }

  // The slider is logarithmic: from what is fixed up to four times what the step took.
  limits(plan) {
    return [Math.max(64, plan.fixed + 32), Math.max(plan.budget, plan.tokens * 2)];
  }

  budgetOf(self) {
    if (self.budget.value === "100") return null;
    const [least, most] = this.limits(this.plan);
    return Math.round(least * (most / least) ** (Number(self.budget.value) / 100));
  }

  label(self) {
    if (this.plan) self.budgetText.textContent = count(this.budgetOf(self) ?? this.plan.budget);
  }

  async at(row) {
    this.row = row;
    this.plan = row?.plan ?? null;
    this.sides?.forEach((self) => this.label(self));
    await this.run();
  }

  soon() {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.run());
  }

  changes(self) {
    const options = {};
    for (const [name, input] of self.inputs) if (input.dataset.moved) options[name] = Number(input.value);
    return { policy: self.policy.value || null, options, budget: this.budgetOf(self), layout: self.layout.value || null };
  }

  // One planning at a time; what is moved meanwhile is planned afterwards, once.
  run() {
    this.stale = true;
    this.running ??= this.runAll().finally(() => { this.running = null; });
    return this.running;
  }

  async runAll() {
    while (this.stale) {
      this.stale = false;
      await this.once();
    }
  }

  async once() {
    if (!this.sides || !this.plan) return;
    const step = this.row.step;
    const results = await Promise.all(this.sides.map((self) => {
      const changes = this.changes(self);
      const plain = !changes.policy && !changes.budget && !changes.layout && !Object.keys(changes.options).length;
      return (plain ? this.source.decision(step) : this.source.whatIf(step, changes)).catch((fault) => ({ problem: fault.message }));
    }));
    if (step !== this.row.step) return;
    this.results = results;
    results.forEach((made, at) => this.outcome(made, at));
    this.table(results);
    this.show(results[0].problem ? null : results[0].codes);
  }

  outcome(made, at) {
    if (made.problem) return fill(this.said[at], el("p", { class: "note" }, made.problem));
    const kept = made.codes.reduce((sum, code) => sum + (code > 0), 0);
    const text = `at most ${count(made.tokens)} of ${count(made.budget)} tokens; ${kept} of ${many(made.codes.length, "old chunk")} in more than one line`;
    const byLevel = [0, 0, 0, 0];
    made.codes.forEach((code, row) => { if (code >= 0) byLevel[code] += made.costs[4 * row + code]; });
    const names = ["placeholder", "brief", "detailed", "full"];
    // what is left is range lines and frames; where the recent window was clipped, what it still takes
    const left = made.tokens - made.fixed - byLevel.reduce((a, b) => a + b, 0);
    const recent = made.cap ? Math.max(0, left) : made.recent;
    byLevel[0] += Math.max(0, left - recent);
    const old = names.map((name, level) => [name, byLevel[level], `level-${name}`]);
    const sections = [["fixed", made.fixed, "level-fixed"], ...old, ["recent", recent, "level-recent"]];
    fill(this.said[at], el("p", {}, el("strong", {}, made.policy), " ", text), meter(sections, made.budget, text),
      el("p", { class: "quiet" }, `pressure ${figure(made.pressure, 2)}; planned ${many(made.unfitted, "token")}; fit made ${many(made.cuts, "cut")}; spend added ${many(made.spent, "token")}`));
    this.strip(this.strips[at], made.codes, text);
  }

  // One square a chunk, oldest first: what was kept and what was dropped.
  strip(canvas, codes, text) {
    const across = Math.max(1, Math.floor((canvas.clientWidth || 300) / SQUARE));
    const shown = Math.min(codes.length, across * 40);
    canvas.style.height = `${Math.max(1, Math.ceil(shown / across)) * SQUARE}px`;
    canvas.setAttribute("aria-label", text);
    canvas.dataset.skip = codes.length - shown;
    const { pen } = sized(canvas);
    const paint = colours();
    for (let at = 0; at < shown; at++) {
      pen.fillStyle = paint.levels.get(codes[codes.length - shown + at]);
      pen.fillRect((at % across) * SQUARE, Math.floor(at / across) * SQUARE, SQUARE - 1.5, SQUARE - 1.5);
    }
  }

  pickIn(at, event) {
    const canvas = this.strips[at];
    const across = Math.max(1, Math.floor(canvas.clientWidth / SQUARE));
    const row = Math.floor(event.offsetY / SQUARE) * across + Math.floor(event.offsetX / SQUARE);
    const chunk = Number(canvas.dataset.skip) + row + 1;
    if (chunk <= (this.results[at]?.codes?.length ?? 0)) this.open(chunk);
  }

  table([a, b]) {
    if (a.problem || b.problem) return fill(this.differences);
    const rows = [];
    let more = 0;
    for (let row = 0; row < Math.min(a.codes.length, b.codes.length); row++) {
      if (a.codes[row] === b.codes[row]) continue;
      if (rows.length < 100) rows.push(row);
      else more++;
    }
    const kept = (code) => (code === HIDDEN || code === FOLDED ? "dropped" : "kept");
    fill(this.differences, el("h3", {}, rows.length ? `${many(rows.length + more, "chunk")} ${rows.length + more === 1 ? "differs" : "differ"}` : "Both come to the same"),
      rows.length ? el("table", {}, el("thead", {}, el("tr", {}, ["chunk", "A", "B"].map((t) => el("th", {}, t)))),
        el("tbody", {}, rows.map((row) => el("tr", {},
          el("td", {}, el("button", { type: "button", class: "cite", on: { click: () => this.open(row + 1) } }, `c${row + 1}`)),
          [a, b].map((made) => el("td", { title: kept(made.codes[row]) }, chip(made.codes[row], levelName(made.codes[row])))))))) : null,
      more ? el("p", { class: "quiet" }, `and ${count(more)} more`) : null);
  }
}
