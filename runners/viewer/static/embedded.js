// A recorded session, all of it in this page.

import { inflate, unpackDecision } from "./codec.js";
import { ABSENT, RECENT } from "./levels.js";

const EVERY = 64;

export class EmbeddedSource {
  constructor(data) {
    this.data = data;
    this.live = false;
    this.decisions = new Map();
  }

  async open() {
    const { heads, chunks, codes } = this.data.changes;
    const [a, b, c] = await Promise.all([inflate(heads), inflate(chunks), inflate(codes)]);
    const flat = new Int32Array(a);
    this.contexts = [];
    let at = 0;
    for (let row = 0; row < flat.length; row += 3) {
      this.contexts.push({ step: flat[row], old: flat[row + 1] - 1, from: at, to: at + flat[row + 2] });
      at += flat[row + 2];
    }
    this.chunks = new Int32Array(b);
    this.codesIn = new Int8Array(c);
    const most = this.contexts.reduce((size, context) => Math.max(size, context.old), 0);
    this.now = new Int8Array(most).fill(ABSENT);
    this.done = 0;
    this.kept = [];
    return this.data.head;
  }

  async head() {
    return this.data.head;
  }

  async rows(first, last, stride = 1) {
    const found = [];
    for (let step = first; step <= last; step += stride) if (this.data.rows[step - 1]) found.push(this.data.rows[step - 1]);
    return found;
  }

  // Walk to the state after the first `count` contexts; going back starts from a remembered one.
  walk(count) {
    if (count < this.done) {
      const place = Math.min(Math.floor(count / EVERY), this.kept.length - 1);
      this.now.fill(ABSENT);
      if (place >= 0 && this.kept[place]) this.now.set(this.kept[place]);
      this.done = Math.max(0, place) * EVERY;
    }
    while (this.done < count) {
      if (this.done % EVERY === 0 && !this.kept[this.done / EVERY]) this.kept[this.done / EVERY] = this.now.slice();
      const context = this.contexts[this.done++];
      for (let at = context.from; at < context.to; at++) this.now[this.chunks[at] - 1] = this.codesIn[at];
    }
  }

  until(step) {
    let low = 0, high = this.contexts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.contexts[middle].step <= step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  async codes(steps, first, stride, count) {
    const tile = new Int8Array(steps.length * count).fill(ABSENT);
    steps.forEach((step, row) => {
      const upto = this.until(step);
      this.walk(upto);
      const old = upto ? this.contexts[upto - 1].old : 0;
      for (let at = 0, chunk = first; at < count && chunk < step; at++, chunk += stride) {
        tile[row * count + at] = chunk <= old ? this.now[chunk - 1] : RECENT;
      }
    });
    return tile;
  }

  async decision(step) {
    const { steps, stride, problem } = this.data.decisions;
    if (!this.decisions.has(step)) {
      const raw = steps[step] ?? {
        problem: problem || `this file holds the scores of every ${stride}. step only; the live viewer has them all`,
      };
      this.decisions.set(step, await unpackDecision(raw));
    }
    return this.decisions.get(step);
  }

  async chunk(number) {
    return this.data.chunks[number - 1] ?? null;
  }

  async search(text, most = 50) {
    const wanted = text.toLowerCase();
    const found = [];
    for (const chunk of this.data.chunks) {
      const body = chunk.texts.full;
      const at = body.toLowerCase().indexOf(wanted);
      if (at < 0) continue;
      found.push({ chunk: chunk.chunk, at, passage: body.slice(Math.max(0, at - 60), at + wanted.length + 120) });
      if (found.length >= most) break;
    }
    return found;
  }
}
