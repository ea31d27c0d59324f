/* solver.js: descent and Newton steps on the face take turns until the gap is small. */
"use strict";
((slab) => {
  const { Face } = slab;
  const { Point, ROUNDING_GAP, adjustSums, gapTarget, largestObjective, projectSums, scale } = slab.program;
  const FIRST_STEPS = 1;
  const STEPS = 4;
  const MOST_STEPS = 64;
  /* A Newton step turns where a multiplier meets its bound, at most so often; so many follow each other. */
  const TURNS = 60;
  const WALKS = 4;
  const PATIENCE = 20;
  const PROGRESS = 0.9;
  const MOST_ROUNDS = 200;
  const SHARE = 0.5;
  /* Leave-one-out scores are exact at the optimum alone. */
  const EXACT = 1e-3;
  const POLISHES = 2;
  /* Equal scores are tried where K_ii is this share of its row's sum; samples depend by a pivot below DEPENDENT. */
  const ALONE = 0.04;
  const DEPENDENT = 1e-9;
  const HELD_SURPLUS = 1.1;
  const FEASIBLE = 1e-9;

  /**
   * @typedef {object} Solution
   * @property {Point} point
   * @property {Face | null} face that the point is the optimum of, with its factor
   * @property {number} steps
   * @property {string} status "converged", "degenerate" or "stalled"
   * @property {number} relativeGap
   */

  /**
   * Solve the program to a relative gap of tol, and further where that is easy.
   * @param {Program} dual
   * @param {Float64Array} K
   * @param {number} tol
   * @param {Float64Array[] | null} start multipliers of feasible sums, or null
   * @returns {Solution}
   */
  function solve(dual, K, tol, start) {
    const { n } = dual;
    let diagonal = 0;
    for (let i = 0; i < n; i++) diagonal += K[i * n + i] / n;
    const floor = ROUNDING_GAP * largestObjective(dual, diagonal);
    let [point, face] = start ? [new Point(dual, start, K), null] : first(dual, K);
    let steps = 0, rounds = 0, since = 0, leastGap = Infinity, polishes = 0, share = SHARE, within = null;
    for (; rounds < MOST_ROUNDS; rounds++) {
      const target = gapTarget(dual, point.objective, diagonal, tol);
      since = point.gap < PROGRESS * leastGap ? 0 : since + 1;
      leastGap = Math.min(leastGap, point.gap);
      if (point.gap <= target) {
        if (scale(dual, point.objective, diagonal) !== Math.abs(point.objective)) break;
        if (face === null) [point, face] = newton(dual, K, point);
        if (face !== null && point.gap <= Math.max(EXACT * target, floor)) break;
        within ??= [point, face];
        if (polishes++ === POLISHES) {
          [point, face] = within;
          break;
        }
        share = EXACT;
      } else if (since >= PATIENCE) break;
      /* An earlier solution mostly lies on the face of the next, or near it. */
      if (start === null || rounds > 0) {
        const each = rounds === 0 ? FIRST_STEPS : Math.min((start ? 1 : STEPS) * 2 ** (rounds - 1), MOST_STEPS);
        const lower = slab.descent.descend(dual, K, point, diagonal, share * tol, each * n);
        steps += lower.steps;
        point = new Point(dual, lower.multipliers, K);
        face = null;
      }
      if (start || rounds > 0) [point, face] = newton(dual, K, point);
    }
    const target = gapTarget(dual, point.objective, diagonal, tol), size = scale(dual, point.objective, diagonal);
    const done = size === Math.abs(point.objective) ? "converged" : "degenerate";
    const status = point.gap <= target ? done : "stalled";
    return { point, face, steps, status, relativeGap: size > 0 ? point.gap / size : 0 };
  }

  /** The point of equal scores, with its face, where these are the optimum; or that the mean leads to. */
  function first(dual, K) {
    const { n, signs, totals } = dual, total = signs.reduce((sum, sign, p) => sum + sign * totals[p], 0);
    const sums = slab.matrix.times(K, n, new Float64Array(n).fill(1));
    let alone = 0;
    for (let i = 0; i < n; i++) alone += sums[i] > 0 ? K[i * n + i] / sums[i] / n : -Infinity;
    const equal = signs.length > 1 && alone > ALONE ? equalScores(dual, K, total) : null;
    if (equal !== null && equal[1] !== null) return equal;
    const scores = sums.map((s) => (total / n) * s);
    const mean = new Point(dual, adjustSums(dual, dual.caps.map(() => new Float64Array(n)), scores), K);
    return equal === null || mean.gap < equal[0].gap ? [mean, null] : equal;
  }

  /** The multipliers that give all samples the same score, put into their boxes; the face where they were inside. */
  function equalScores(dual, K, total) {
    const { n, caps, signs } = dual;
    const face = new Face(dual, caps.map(() => new Float64Array(n)), () => true);
    if (!face.factor(K, 1e-13)) return null;
    let pivot = Infinity;
    for (let i = 0; i < n; i++) pivot = Math.min(pivot, face.lower[i * n + i] ** 2 / face.lift);
    if (pivot < DEPENDENT) return null;
    const beta = face.solve(new Float64Array(n), [total]);
    const positive = beta.reduce((sum, b, i) => sum + Math.min(Math.max(b, 0), caps[0][i]), 0);
    if (positive / dual.totals[0] > HELD_SURPLUS) return null;
    let multipliers = signs.map((sign, p) => beta.map((b, i) => Math.min(Math.max(sign * b, 0), caps[p][i])));
    const spare = beta.map((_, i) => Math.min(...multipliers.map((values, p) => caps[p][i] - values[i])));
    const room = spare.reduce((a, b) => a + b, 0);
    const missing = Math.min(...multipliers.map((values, p) => dual.totals[p] - values.reduce((a, b) => a + b, 0)));
    if (missing > 0 && missing < room) {
      multipliers = multipliers.map((values) => values.map((v, i) => v + spare[i] * (missing / room)));
    }
    const point = new Point(dual, projectSums(dual, multipliers), K);
    let off = 0, largest = 0;
    beta.forEach((b, i) => {
      off = Math.max(off, Math.abs(point.beta[i] - b));
      largest = Math.max(largest, Math.abs(b));
    });
    const inside = beta.every((_, i) => point.multipliers.some((values, p) => values[i] > 0 && values[i] < caps[p][i]));
    return [point, inside && off <= FEASIBLE * largest ? face : null];
  }

  /** The best point among some Newton steps on the face, and the face if its optimum is that point. */
  function newton(dual, K, start) {
    let point = start, best = start;
    for (let step = 0; step < WALKS; step++) {
      const face = new Face(dual, point.multipliers);
      if (face.samples.length < 2 || !face.factor(K)) break;
      const { multipliers, met, arrived } = face.walk(point.multipliers, point.scores, TURNS);
      point = new Point(dual, multipliers, K);
      /* Near the optimum the objective is the same to within rounding. */
      if (point.gap < best.gap || point.objective < best.objective) best = point;
      if (arrived && met === 0) return [best, best === point ? face : null];
    }
    return [best, null];
  }

  slab.solver = { solve };
})((globalThis.slabsvm ??= {}));
