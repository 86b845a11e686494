// The page of one session.

import { Compare } from "./compare.js";
import { EmbeddedSource } from "./embedded.js";
import { Range, drawCost, drawTile, drawTokens, readTile, scale } from "./canvas.js";
import { RemoteSource } from "./remote.js";
import { answerPanel, chunkPanel, stepPanel } from "./panels.js";
import { byId, count, el, fill, many, visible } from "./dom.js";
import { LEVELS, chip, forgetColours } from "./levels.js";
import { findPanel } from "./find.js";

const TABS = ["step", "chunk", "whatif", "answer", "find"];
const STATUSES = {
  running: "a process works on it", open: "its last run did not end: it was interrupted, and can be resumed",
  new: "nothing was asked yet", completed: "its last run ended with an answer",
};
const LEVEL_KEYS = ["full", "detailed", "brief", "placeholder"];

class App {
  constructor(source) {
    this.source = source;
    this.step = 1;
    this.chunk = 0;
    this.level = "full";
    this.quote = "";
    this.overlay = null;
    this.following = true;
  }

  async start() {
    this.head = await this.source.open();
    this.range = new Range(this.head.last);
    this.step = Math.max(1, this.head.last);
    this.title();
    fill(byId("legend"), [...LEVELS].map(([code, { about }]) => el("span", { title: about }, chip(code))));
    byId("slider").addEventListener("input", (event) => this.go(Number(event.target.value)));
    byId("number").addEventListener("change", (event) => this.go(Number(event.target.value) || this.step));
    for (const [id, act] of [["back", () => this.go(this.step - 1)], ["forward", () => this.go(this.step + 1)],
      ["closer", () => this.zoom(0.6)], ["wider", () => this.zoom(1 / 0.6)], ["all", () => this.all()]]) {
      byId(id).addEventListener("click", act);
    }
    byId("theme").addEventListener("click", () => this.theme());
    for (const name of TABS) byId(`tab-${name}`).addEventListener("click", () => this.tab(name));
    this.mouse(byId("map"));
    for (const id of ["tokens", "cost"]) byId(id).addEventListener("click", (event) => this.go(this.at(event).step));
    document.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    new ResizeObserver(() => this.draw()).observe(byId("map"));
    this.search = findPanel(byId("find"), this.source, (chunk, quote) => this.open(chunk, quote));
    await this.whatIf();
    answerPanel(byId("answer"), this.head, (chunk, quote) => this.open(chunk, quote));
    this.tab(this.head.answers.length ? "answer" : "step");
    if (this.source.follow) this.source.follow(this.head.last, () => this.moved(), (lost) => this.connection(lost));
    await this.go(this.step);
    document.documentElement.dataset.ready = "1";
  }

  title() {
    const { head } = this;
    byId("name").textContent = head.session;
    byId("status").textContent = head.status;
    byId("status").className = `tag status-${/^[a-z_]+$/.test(head.status) ? head.status : "other"}`;
    byId("status").title = STATUSES[head.status] ?? "";
    byId("about").textContent = `${head.policy || "no policy"}, ${many(head.steps, "step")}`;
    document.documentElement.dataset.empty = head.last ? "" : "1";
    byId("slider").max = byId("number").max = String(Math.max(1, head.last));
  }

  // The question in force at the step in view; which of them it is, where there are several.
  asked() {
    const { questions } = this.head;
    const at = Math.max(0, questions.findLastIndex((question) => question.from <= this.step));
    const place = questions.length > 1 ? el("span", { class: "quiet" }, ` question ${count(at + 1)} of ${count(questions.length)}`) : null;
    fill(byId("asked"), questions.length ? [visible(questions[at].text), place] : null);
  }

  async whatIf() {
    const place = byId("whatif");
    if (!this.source.whatIf) {
      return fill(place, el("h2", {}, "What if"), el("p", {}, "Planning a step again under another policy or budget needs the live viewer:"),
        el("pre", { class: "text" }, "longstride ui"));
    }
    const problem = this.head.replannable ? "" : "This session's settings cannot be read, so its steps cannot be planned again.";
    if (problem) return fill(place, el("h2", {}, "What if"), el("p", { class: "note" }, problem));
    const show = (codes) => {
      this.overlay = this.current === "whatif" ? codes : null;
      this.draw();
    };
    this.compare = new Compare(place, this.source, { show, open: (chunk) => this.open(chunk) });
    return this.compare.start(this.head, await this.source.policies());
  }

  // ---- moving

  async go(step) {
    this.step = Math.max(1, Math.min(step, Math.max(1, this.head.last)));
    this.following = this.step === this.head.last;
    byId("slider").value = byId("number").value = String(this.step);
    this.range.reveal(this.step, 0);
    this.overlay = null;
    this.asked();
    this.draw();
    await this.panels();
  }

  async open(chunk, quote = "") {
    this.chunk = Math.max(1, Math.min(chunk, this.head.last));
    this.quote = quote;
    if (quote) this.level = "full";
    if (this.step <= this.chunk) await this.go(Math.min(this.chunk + 1, this.head.last));
    this.tab("chunk");
    this.range.reveal(this.step, this.chunk);
    this.draw();
    await this.panels();
    byId("quoted")?.scrollIntoView({ block: "nearest" });
  }

  // One filling at a time; moves that come meanwhile are made up for by one more. Done when the latest is shown.
  panels() {
    this.stale = true;
    this.filling ??= this.fillPanels().finally(() => { this.filling = null; });
    return this.filling;
  }

  async fillPanels() {
    while (this.stale) {
      this.stale = false;
      try {
        const { step, chunk: number } = this;
        const [row] = await this.source.rows(step, step);
        if (step !== this.told) stepPanel(byId("step"), row, undefined, (other) => this.open(other));
        this.told = step;
        const asked = row?.plan ? this.source.decision(step).catch((fault) => ({ problem: fault.message })) : null;
        const chunk = number ? await this.source.chunk(number).catch(() => null) : null;
        await this.showPanels(step, row, await asked, number, chunk);
      } catch (fault) {
        this.connection(fault.message);
      }
    }
  }

  async showPanels(step, row, decision, number, chunk) {
    stepPanel(byId("step"), row, decision, (other) => this.open(other));
    if (number) {
      chunkPanel(byId("chunk"), {
        number, step, chunk, decision, level: this.level, quote: this.quote,
        raw: this.source.rawLink?.(number),
        pick: (level) => { this.level = level; this.panels(); },
        jump: (to) => { this.tab("step"); this.go(to); },
      });
    } else fill(byId("chunk"), el("p", { class: "quiet" }, "Click a cell of the grid, or press the arrow keys up and down."));
    if (this.compare && this.current === "whatif") await this.compare.at(row);
  }

  tab(name) {
    this.current = name;
    for (const each of TABS) {
      byId(each).hidden = each !== name;
      byId(`tab-${each}`).setAttribute("aria-selected", String(each === name));
    }
    if (name === "find") this.search.focus();
    if (name === "whatif" && this.compare) this.panels();
    else if (this.overlay) {
      this.overlay = null;
      this.draw();
    }
  }

  zoom(factor, step = this.step, chunk = this.chunk || this.range.chunk + this.range.chunks / 2) {
    this.range.zoom(factor, step, chunk);
    this.draw();
  }

  all() {
    this.range.fit();
    this.draw();
  }

  // ---- drawing: what is there at once, what has to be read when it comes

  draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      this.paint();
      this.read();
    });
  }

  paint() {
    const mark = { step: this.step, chunk: this.chunk };
    drawTile(byId("map"), this.range, this.tile, mark, this.overlay);
    if (!this.sampled) return;
    drawTokens(byId("tokens"), this.range, this.sampled.rows, this.sampled.stride, mark);
    drawCost(byId("cost"), this.range, this.sampled.rows, this.sampled.stride, mark);
  }

  async read() {
    const map = byId("map");
    const { first, stride, count: many } = this.range.sample(map.clientWidth);
    const key = [first, stride, many, this.range.chunk, this.range.chunks, map.clientWidth, map.clientHeight, this.head.last].join();
    if (key === this.readKey) return;
    this.readKey = key;
    try {
      const [tile, rows] = await Promise.all([
        readTile(this.source, this.range, map.clientWidth, map.clientHeight),
        this.source.rows(first, first + stride * many - 1, stride),
      ]);
      if (key !== this.readKey) return;
      this.tile = tile;
      this.sampled = { rows, stride };
      this.paint();
    } catch (fault) {
      this.readKey = "";
      this.connection(fault.message);
    }
  }

  repaint() {
    forgetColours();
    this.paint();
    if (this.current === "whatif") this.panels();
  }

  theme() {
    const now = document.documentElement.dataset.theme;
    const dark = now ? now === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    this.repaint();
  }

  // ---- hands

  at(event) {
    const map = byId("map");
    const to = scale(this.range, map.clientWidth, map.clientHeight);
    return { step: to.step(event.offsetX), chunk: to.chunk(event.offsetY), to };
  }

  mouse(map) {
    let from = null;
    map.addEventListener("pointerdown", (event) => {
      from = { x: event.offsetX, y: event.offsetY, moved: false };
      map.setPointerCapture(event.pointerId);
    });
    map.addEventListener("pointermove", (event) => {
      if (!from) return this.hint(event);
      const dx = event.offsetX - from.x, dy = event.offsetY - from.y;
      if (!from.moved && Math.hypot(dx, dy) < 4) return;
      const { to } = this.at(event);
      this.range.pan(-dx / to.x, -dy / to.y);
      from = { x: event.offsetX, y: event.offsetY, moved: true };
      this.draw();
    });
    map.addEventListener("pointerup", (event) => {
      const clicked = from && !from.moved;
      from = null;
      if (clicked) this.click(event);
    });
    map.addEventListener("pointercancel", () => { from = null; });
    map.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { step, chunk } = this.at(event);
      this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, step, chunk);
    }, { passive: false });
  }

  async click(event) {
    const { step, chunk } = this.at(event);
    if (step < 1 || step > this.head.last) return;
    await this.go(step);
    if (chunk >= 1 && chunk < step) {
      await this.open(chunk);
      byId("chunk").scrollIntoView({ block: "nearest" });
    } else this.tab("step");
  }

  hint(event) {
    const { step, chunk } = this.at(event);
    const inside = step >= 1 && step <= this.head.last && chunk >= 1 && chunk < step;
    byId("hint").textContent = inside ? `c${chunk} at step ${step}` : "";
  }

  key(event) {
    const typing = /^(input|select|textarea)$/i.test(event.target.tagName) && event.target.type !== "range";
    if (event.key === "Escape" && typing) return event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const far = event.shiftKey ? 10 : 1;
    const acts = {
      ArrowLeft: () => this.go(this.step - far), ArrowRight: () => this.go(this.step + far),
      ArrowUp: () => this.open((this.chunk || this.step) - far), ArrowDown: () => this.open(this.chunk + far),
      Home: () => this.go(1), End: () => this.go(this.head.last),
      "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), 0: () => this.all(),
      "/": () => this.tab("find"), s: () => this.tab("step"), c: () => this.tab("chunk"), w: () => this.tab("whatif"),
      a: () => this.tab("answer"), t: () => this.theme(), "?": () => { byId("keys").open = !byId("keys").open; },
    };
    LEVEL_KEYS.forEach((level, at) => { acts[at + 1] = () => { this.level = level; this.panels(); }; });
    if (event.target.type === "range" && event.target.id !== "slider" && event.key.startsWith("Arrow")) return undefined;
    if (!acts[event.key]) return undefined;
    event.preventDefault();
    return acts[event.key]();
  }

  // ---- a run that goes on

  // What comes while it is being taken in is taken in once, afterwards.
  async moved() {
    this.behind = true;
    if (this.catching) return;
    this.catching = true;
    try {
      while (this.behind) {
        this.behind = false;
        await this.catchUp();
      }
    } finally {
      this.catching = false;
    }
  }

  async catchUp() {
    const follow = this.following;
    this.head = await this.source.head();
    this.source.forget();
    this.range.grow(this.head.last);
    this.readKey = "";
    this.title();
    answerPanel(byId("answer"), this.head, (chunk, quote) => this.open(chunk, quote));
    await this.go(follow ? this.head.last : this.step);
  }

  connection(lost) {
    byId("problem").textContent = lost ? (lost === true ? "the server is gone" : `${lost}`) : lost === false ? "reconnecting…" : "";
  }
}

function source() {
  const data = byId("data");
  if (data) return new EmbeddedSource(JSON.parse(data.textContent));
  const { base, session } = document.documentElement.dataset;
  return new RemoteSource(base, session);
}

const app = new App(source());
app.start().catch((fault) => {
  document.documentElement.dataset.broken = "1";
  byId("problem").textContent = `This session cannot be shown: ${fault.message}`;
});
