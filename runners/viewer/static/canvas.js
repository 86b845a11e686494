// The two drawings over time: levels (steps by chunks) and tokens against the budget. Only what is in view is read,
// at most one sample a pixel, so that a session of any length costs the same to draw.

import { ABSENT, colours } from "./levels.js";

const CELL = 26;
const LEFT = 44;

export function sized(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  return { pen, width, height };
}

// The part of the session in view. Steps and chunks are numbered alike, from 1; `end` is exclusive.
export class Range {
  constructor(total) {
    this.total = Math.max(1, total);
    this.fit();
  }

  fit() {
    this.step = 1;
    this.steps = this.total;
    this.chunk = 1;
    this.chunks = Math.max(1, this.total - 1);
  }

  grow(total) {
    const whole = this.steps >= this.total;
    this.total = Math.max(1, total);
    if (whole) this.fit();
  }

  zoom(factor, atStep, atChunk) {
    const steps = Math.min(this.total, Math.max(8, this.steps * factor));
    const chunks = Math.min(Math.max(1, this.total - 1), Math.max(8, this.chunks * factor));
    this.step = atStep - ((atStep - this.step) * steps) / this.steps;
    this.chunk = atChunk - ((atChunk - this.chunk) * chunks) / this.chunks;
    this.steps = steps;
    this.chunks = chunks;
    this.keep();
  }

  pan(steps, chunks) {
    this.step += steps;
    this.chunk += chunks;
    this.keep();
  }

  reveal(step, chunk) {
    if (step < this.step || step >= this.step + this.steps) this.step = step - this.steps / 2;
    if (chunk && (chunk < this.chunk || chunk >= this.chunk + this.chunks)) this.chunk = chunk - this.chunks / 2;
    this.keep();
  }

  keep() {
    this.step = Math.max(1, Math.min(this.step, this.total + 1 - this.steps));
    this.chunk = Math.max(1, Math.min(this.chunk, Math.max(1, this.total - 1) + 1 - this.chunks));
  }

  // Steps to read for `width` pixels: first, distance, number.
  sample(width) {
    const first = Math.floor(this.step), end = Math.min(this.total + 1, Math.ceil(this.step + this.steps));
    const stride = Math.max(1, Math.ceil((end - first) / Math.max(1, width)));
    return { first, stride, count: Math.ceil((end - first) / stride) };
  }

  sampleChunks(height) {
    const first = Math.floor(this.chunk), end = Math.min(Math.max(2, this.total), Math.ceil(this.chunk + this.chunks));
    const stride = Math.max(1, Math.ceil((end - first) / Math.max(1, height)));
    return { first, stride, count: Math.ceil((end - first) / stride) };
  }
}

// Pixels of a step and a chunk in a drawing of this size; few steps do not fill it.
export function scale(range, width, height) {
  const x = Math.min(CELL * 2, (width - LEFT) / range.steps);
  const y = Math.min(CELL, height / range.chunks);
  return {
    x,
    y,
    left: (step) => LEFT + (step - range.step) * x,
    top: (chunk) => (chunk - range.chunk) * y,
    step: (at) => Math.floor((at - LEFT) / x + range.step),
    chunk: (at) => Math.floor(at / y + range.chunk),
  };
}

export async function readTile(source, range, width, height) {
  const across = range.sample(width - LEFT), down = range.sampleChunks(height);
  const steps = Array.from({ length: across.count }, (_, at) => across.first + at * across.stride);
  const codes = await source.codes(steps, down.first, down.stride, down.count);
  return { across, down, codes };
}

// `overlay`: codes that another policy gives the chunks at the step in view.
export function drawTile(canvas, range, tile, mark, overlay) {
  const { pen, width, height } = sized(canvas);
  const paint = colours();
  const to = scale(range, width, height);
  if (tile && tile.across.count && tile.down.count) {
    const wide = to.x * tile.across.stride >= 5 && to.y * tile.down.stride >= 5;
    if (wide) drawCells(pen, to, tile, paint);
    else drawImage(pen, to, tile, paint);
  }
  if (overlay) drawOverlay(pen, to, mark, overlay, paint, width);
  drawMarks(pen, to, mark, paint, width, height, range);
}

function drawCells(pen, to, { across, down, codes }, paint) {
  const gap = to.x * across.stride > 9 ? 1 : 0.5;
  for (let column = 0; column < across.count; column++) {
    for (let row = 0; row < down.count; row++) {
      const code = codes[column * down.count + row];
      if (code === ABSENT) continue;
      pen.fillStyle = paint.levels.get(code);
      const x = to.left(across.first + column * across.stride), y = to.top(down.first + row * down.stride);
      if (x + to.x > LEFT) pen.fillRect(Math.max(LEFT, x), y, to.x * across.stride - gap, to.y * down.stride - gap);
    }
  }
}

function drawImage(pen, to, tile, paint) {
  const { across, down } = tile;
  // one pixel a cell, kept with the tile until the colours change
  if (tile.paint !== paint) Object.assign(tile, { paint, sheet: sheetOf(tile, paint) });
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, 1e5, 1e5);
  pen.clip();
  pen.imageSmoothingEnabled = false;
  const wide = across.count * across.stride * to.x, high = down.count * down.stride * to.y;
  pen.drawImage(tile.sheet, to.left(across.first), to.top(down.first), wide, high);
  pen.restore();
}

function sheetOf({ across, down, codes }, paint) {
  const image = new ImageData(across.count, down.count);
  const words = new Uint32Array(image.data.buffer);
  for (let column = 0; column < across.count; column++) {
    for (let row = 0; row < down.count; row++) {
      words[row * across.count + column] = paint.words.get(codes[column * down.count + row]) ?? 0;
    }
  }
  const sheet = new OffscreenCanvas(across.count, down.count);
  sheet.getContext("2d").putImageData(image, 0, 0);
  return sheet;
}

function drawOverlay(pen, to, mark, codes, paint, width) {
  const wide = Math.max(18, to.x);
  const x = Math.min(to.left(mark.step) + to.x / 2 - wide / 2, width - wide - 2);
  codes.forEach((code, row) => {
    pen.fillStyle = paint.levels.get(code);
    pen.fillRect(x, to.top(row + 1), wide, Math.max(to.y - (to.y > 6 ? 1 : 0), 0.5));
  });
  pen.strokeStyle = paint.warn;
  pen.lineWidth = 2;
  pen.strokeRect(x - 1, to.top(1) - 1, wide + 2, codes.length * to.y + 2);
}

function drawMarks(pen, to, mark, paint, width, height, range) {
  pen.fillStyle = paint.soft;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const lines = Math.max(1, Math.floor(height / 56));
  const apart = Math.max(1, Math.ceil(range.chunks / lines));
  for (let chunk = Math.ceil(range.chunk); chunk < range.chunk + range.chunks; chunk += apart) {
    pen.fillText(`c${chunk}`, LEFT - 6, Math.max(7, to.top(chunk) + Math.min(to.y, 14) / 2));
  }
  pen.strokeStyle = paint.accent;
  pen.lineWidth = 1.5;
  const x = to.left(mark.step);
  const bottom = Math.min(height, to.top(range.total)) - 1.5;
  if (x >= LEFT - 1 && x <= width) pen.strokeRect(x - 0.75, 0.75, Math.max(3, to.x), Math.max(6, bottom));
  if (mark.chunk) {
    pen.globalAlpha = 0.55;
    const end = Math.min(width, to.left(range.total + 1)) - 1;
    pen.strokeRect(LEFT, to.top(mark.chunk) - 0.75, end - LEFT, Math.max(3, to.y));
    pen.globalAlpha = 1;
    if (mark.chunk < mark.step) {
      pen.strokeStyle = paint.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x, to.top(mark.chunk), Math.max(5, to.x), Math.max(5, to.y));
    }
  }
}

const PARTS = [
  ["fixed", (plan) => plan.fixed],
  [0, (plan) => plan.byLevel[0]],
  [1, (plan) => plan.byLevel[1]],
  [2, (plan) => plan.byLevel[2]],
  [3, (plan) => plan.byLevel[3]],
  [4, (plan) => plan.recent],
];

// Tokens of every context, by section, against its budget.
export function drawTokens(canvas, range, rows, stride, mark) {
  const { pen, width, height } = sized(canvas);
  const paint = colours();
  const to = scale(range, width, height);
  const plans = rows.filter((row) => row.plan);
  const biggest = Math.max(1, ...plans.map((row) => Math.max(row.plan.tokens, parts(row.plan))));
  const budget = Math.max(0, ...plans.map((row) => row.plan.budget));
  const near = budget < biggest * 4;
  const most = (near ? Math.max(budget, biggest) : biggest) * 1.08;
  const up = (value) => height - (value / most) * (height - 4);
  const gap = to.x * stride > 6 ? 1 : 0;
  for (const row of plans) {
    let at = 0;
    for (const [name, read] of PARTS) {
      const size = read(row.plan) ?? 0;
      pen.fillStyle = name === "fixed" ? paint.fixed : paint.levels.get(name);
      const x = Math.max(LEFT, to.left(row.step));
      pen.fillRect(x, up(at + size), Math.max(1, to.left(row.step + stride) - x - gap), up(at) - up(at + size));
      at += size;
    }
  }
  if (budget) drawBudget(pen, paint, near ? up(budget) : 0, width, near ? "budget" : `budget ${short(budget)}, far above`, near);
  pen.fillStyle = paint.soft;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.fillText(short(most), LEFT - 6, 8);
  pen.fillText("0", LEFT - 6, height - 7);
  pen.strokeStyle = paint.accent;
  pen.lineWidth = 1.5;
  const x = to.left(mark.step);
  if (x >= LEFT - 1) pen.strokeRect(x - 0.75, 0.75, Math.max(3, to.x), height - 1.5);
}

function drawBudget(pen, paint, y, width, text, line) {
  pen.textAlign = line ? "left" : "right";
  pen.textBaseline = "top";
  if (line) {
    pen.strokeStyle = paint.warn;
    pen.setLineDash([5, 4]);
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.moveTo(LEFT, y);
    pen.lineTo(width, y);
    pen.stroke();
    pen.setLineDash([]);
  }
  pen.fillStyle = line ? paint.warn : paint.soft;
  pen.strokeStyle = paint.paper;
  pen.lineWidth = 3;
  const x = line ? LEFT + 4 : width - 4;
  pen.strokeText(text, x, y + 4);
  pen.fillText(text, x, y + 4);
}

const parts = (plan) => PARTS.reduce((sum, [, read]) => sum + (read(plan) ?? 0), 0);
export const short = (value) => (value >= 10000 ? `${Math.round(value / 1000)}K` : value >= 1000 ? `${(value / 1000).toFixed(1)}K` : `${Math.round(value)}`);

// Share of each request that was cached, and what each step cost.
export function drawCost(canvas, range, rows, stride, mark) {
  const { pen, width, height } = sized(canvas);
  const paint = colours();
  const to = scale(range, width, height);
  const costs = rows.map((row) => row.usage?.cost ?? 0);
  const most = Math.max(1e-9, ...costs);
  rows.forEach((row, at) => {
    const x = Math.max(LEFT, to.left(row.step)), wide = Math.max(1, to.left(row.step + stride) - x - (to.x > 6 ? 1 : 0));
    const cost = (costs[at] / most) * (height - 3);
    pen.fillStyle = paint.fixed;
    pen.fillRect(x, height - cost, wide, cost);
    const cached = cachedShare(row);
    if (cached == null) return;
    pen.fillStyle = paint.accent;
    pen.fillRect(x, height - 2 - cached * (height - 5), wide, 2);
  });
  pen.fillStyle = paint.soft;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.fillText("100 %", LEFT - 6, 7);
  pen.strokeStyle = paint.accent;
  const x = to.left(mark.step);
  if (x >= LEFT - 1) pen.strokeRect(x - 0.75, 0.75, Math.max(3, to.x), height - 1.5);
}

// The provider's figure where there is one, else how much of the request was the same as in the one before.
export function cachedShare(row) {
  if (row.usage?.cached != null && row.usage.input) return row.usage.cached / row.usage.input;
  return row.plan?.prefix != null && row.plan.tokens ? row.plan.prefix / row.plan.tokens : null;
}
