// Why a chunk is shown as it is, from the numbers of the decision.

import { figure } from "./dom.js";
import { FOLDED, HIDDEN, levelName } from "./levels.js";

const NAMES = ["alpha", "beta", "gamma"];

export function chunkFigures(decision, chunk) {
  const row = chunk - 1;
  if (decision.problem || row >= decision.codes.length) return null;
  const costs = Array.from(decision.costs.subarray(4 * row, 4 * row + 4));
  const code = decision.codes[row];
  const cost = code >= 0 ? costs[code] : 0;
  const value = decision.values[row], share = decision.shares[row];
  return {
    code,
    planned: decision.planned[row],
    cosine: decision.cosines[row],
    value,
    cost,
    costs,
    share,
    available: Array.from(decision.available.subarray(4 * row, 4 * row + 4)),
    perToken: cost ? (value * share) / cost : null,
    reason: decision.reasons[chunk] ?? "",
  };
}

export function because(decision, figures) {
  const lines = [];
  if (figures.reason) lines.push(figures.reason);
  if (decision.thresholds) lines.push(byThreshold(decision.thresholds, figures));
  else if (!figures.reason) lines.push(`The plan ${planned(figures)}.`);
  lines.push(changed(figures));
  return lines.filter(Boolean);
}

function planned({ planned: level, costs }) {
  if (level === HIDDEN) return "left it out: others are worth more within the budget";
  return level === FOLDED ? "folded it into a range line" : `showed it as ${levelName(level)}, for ${costs[level]} tokens`;
}

function byThreshold(thresholds, { value, planned }) {
  const above = thresholds.reduce((place, limit, at) => (value > limit ? at : place), -1);
  const earned = ["placeholder", "brief", "detailed", "full"][above + 1];
  const limits = [];
  if (above >= 0) limits.push(`above ${NAMES[above]} ${figure(thresholds[above], 2)}`);
  if (above < 2) limits.push(`not above ${NAMES[above + 1]} ${figure(thresholds[above + 1], 2)}`);
  const wanted = `Its value ${figure(value, 2)} is ${limits.join(" and ")}: that earns ${earned}.`;
  return earned === levelName(planned) || planned < 0
    ? wanted
    : `${wanted} The plan took ${levelName(planned)}: there was no such summary, or it is not a level in use.`;
}

function changed({ planned, code, costs, available }) {
  if (code === planned) return "It is shown as planned: nothing had to be cut here.";
  if (code === HIDDEN) return "It is not shown; glimpse still has it.";
  if (planned === HIDDEN) return "The ledger keeps its line although the plan did not show it.";
  const was = levelName(planned);
  if (code === FOLDED) {
    return planned === 0
      ? "Its line was folded into a range line."
      : `fit took it from ${was} into a range line, which saves ${costs[planned]} tokens.`;
  }
  if (code < planned) return `fit took it from ${was} to ${levelName(code)}, which saves ${costs[planned] - costs[code]} tokens.`;
  if (!available[planned]) return `There is no ${was} of its own, so ${levelName(code)} stands for it.`;
  if (costs[code] === costs[planned]) return `Its ${was} is no shorter, so ${levelName(code)} stands for it.`;
  return `spend raised it from ${was} to ${levelName(code)} with ${costs[code] - costs[planned]} tokens that the plan left over.`;
}
