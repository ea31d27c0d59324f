/* program.js: the slab's quadratic program, its certificate, and the planes' offsets (slabsvm.dual.program). */
"use strict";
((slab) => {
  const { dot } = slab.matrix;
  const OBJECTIVE_FLOOR = 1e-7;
  const MASS_ROUNDING = 1e-12;
  const ROUNDING_GAP = 1e-14;

  /**
   * minimise 1/2 beta'K beta over 0 <= v_p <= cap_p, sum v_p = total_p, with beta = sum_p sign_p v_p.
   * @typedef {object} Program
   * @property {number[]} signs
   * @property {Float64Array[]} caps one for each plane
   * @property {number[]} totals
   * @property {number} n
   */

  /** Caps of twice what the multipliers sum to bind none. */
  const binding = (nu, least, n) => Math.max(nu, n > 1 ? 0.5 * least : 2 ** -100);

  /**
   * Return the program of a slab; at epsilon = 0 that of the one-class SVM.
   * @param {ArrayLike<number>} weights
   * @returns {Program}
   */
  function program(weights, nuLower, nuUpper, epsilon) {
    const n = weights.length;
    let sum = 0;
    for (let i = 0; i < n; i++) sum += weights[i];
    const share = Float64Array.from(weights, (w) => w / sum), least = Math.min(...share);
    const [below, above] = [nuLower, nuUpper].map((nu) => binding(nu, least, n));
    const lower = share.map((s) => s / below);
    if (epsilon === 0) return { signs: [1], caps: [lower], totals: [1], n };
    const upper = share.map((s) => (epsilon * s) / above);
    return { signs: [1, -1], caps: [lower, upper], totals: [1, epsilon], n };
  }

  /** Where the weights of the lowest values sum to total; the midpoint where that is an interval. */
  function weightedQuantile(values, weights, total) {
    const order = Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
    const found = [total - MASS_ROUNDING * total, total + MASS_ROUNDING * total].map((mass) => {
      let sum = 0, rank = 0;
      for (; rank < order.length - 1; rank++) if ((sum += weights[order[rank]]) >= mass) break;
      return values[order[rank]];
    });
    return 0.5 * (found[0] + found[1]);
  }

  /** The planes' best offsets for these scores. */
  const offsets = (dual, scores) =>
    dual.signs.map((sign, p) => sign * weightedQuantile(scores.map((s) => sign * s), dual.caps[p], dual.totals[p]));

  /** What plane p leaves outside, as a share. */
  const nus = (dual) => dual.totals.map((total, p) => total / dual.caps[p].reduce((a, b) => a + b, 0));

  const side = (dual) => Math.sign(dual.signs.reduce((sum, sign, p) => sum + sign * dual.totals[p], 0));

  /** Whether plane p faces away from the origin. */
  const isOuter = (dual, p) => dual.signs[p] * side(dual) < 0;

  const accepts = (dual, score, rho, rounding) => dual.signs.every((sign, p) => sign * (score - rho[p]) >= -rounding);

  const largestObjective = (dual, diagonal) => diagonal * dual.totals.reduce((a, b) => a + b, 0) ** 2;

  const scale = (dual, objective, diagonal) =>
    Math.max(Math.abs(objective), OBJECTIVE_FLOOR * largestObjective(dual, diagonal));

  /** The gap at which a solver may stop. */
  function gapTarget(dual, objective, diagonal, tol) {
    const size = scale(dual, objective, diagonal);
    if (size === Math.abs(objective)) return tol * size;
    return Math.max(tol * size, ROUNDING_GAP * largestObjective(dual, diagonal));
  }

  /** Feasible multipliers with their scores, and what follows from them. */
  class Point {
    /**
     * @param {Program} dual
     * @param {Float64Array[]} multipliers
     * @param {Float64Array} K
     */
    constructor(dual, multipliers, K) {
      this.dual = dual;
      this.multipliers = multipliers;
      this.beta = new Float64Array(dual.n);
      dual.signs.forEach((sign, p) => multipliers[p].forEach((v, i) => (this.beta[i] += sign * v)));
      this.scores = slab.matrix.times(K, dual.n, this.beta);
      this.objective = 0.5 * dot(this.beta, 0, this.scores, 0, dual.n);
      this.offsets = offsets(dual, this.scores);
      this.gap = 0;
      dual.signs.forEach((sign, p) => {
        for (let i = 0; i < dual.n; i++) {
          const distance = sign * (this.scores[i] - this.offsets[p]), v = multipliers[p][i];
          this.gap += (distance > 0 ? v : v - dual.caps[p][i]) * distance;
        }
      });
    }
  }

  /** Multipliers within their boxes whose sums are right, moved no more than needed. */
  function projectSums(dual, multipliers) {
    return multipliers.map((given, p) => {
      const caps = dual.caps[p], values = given.map((v, i) => Math.min(Math.max(v, 0), caps[i]));
      for (let round = 0; round < 3; round++) {
        const missing = dual.totals[p] - values.reduce((a, b) => a + b, 0);
        let room = values.map((v, i) => Math.min(v, caps[i] - v));
        let sum = room.reduce((a, b) => a + b, 0);
        if (!(sum > Math.abs(missing))) {
          room = values.map((v, i) => (missing > 0 ? caps[i] - v : v));
          sum = room.reduce((a, b) => a + b, 0);
        }
        if (missing === 0 || sum === 0) break;
        values.forEach((v, i) => (values[i] = Math.min(Math.max(v + (missing * room[i]) / sum, 0), caps[i])));
      }
      return values;
    });
  }

  /** Multipliers within their boxes whose sums are right, changed where it matters least by these scores. */
  function adjustSums(dual, multipliers, scores) {
    return multipliers.map((given, p) => {
      const caps = dual.caps[p], sign = dual.signs[p];
      const values = given.map((v, i) => Math.min(Math.max(v, 0), caps[i]));
      let missing = dual.totals[p] - values.reduce((a, b) => a + b, 0);
      const way = missing > 0 ? sign : -sign;
      for (const i of Array.from(values.keys()).sort((a, b) => way * (scores[a] - scores[b]))) {
        const moved = Math.min(Math.abs(missing), missing > 0 ? caps[i] - values[i] : values[i]) * Math.sign(missing);
        values[i] += moved;
        missing -= moved;
        if (missing === 0) break;
      }
      return values;
    });
  }

  slab.program = {
    ROUNDING_GAP, MASS_ROUNDING, program, nus, side, isOuter, accepts, largestObjective, scale, gapTarget,
    weightedQuantile, Point, projectSums, adjustSums,
  };
})((globalThis.slabsvm ??= {}));
