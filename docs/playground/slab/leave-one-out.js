/* leave-one-out.js: what each row would score had it not been learned (in the package: src/slabsvm/core/left_out.h). */
"use strict";
((slab) => {
  const { adjustSums, scale } = slab.program;
  /* A path arrives where the gap is this share of the objective; where it does not, it is far larger. */
  const EXACT = 1e-7;

  /**
   * Return the score of a row of each sample under the model without that row; its copies stay. A path leads there from
   * the present solution; where it does not arrive, the program is solved. What has no multiplier changes nothing.
   * @param {Program} dual
   * @param {Float64Array} K
   * @param {Solution} solution
   * @param {number[]} counts how many rows each sample is
   * @param {number} tol of programs that are solved
   * @returns {Float64Array} the scores, n
   */
  function leaveOneOut(dual, K, solution, counts, tol) {
    const { point } = solution, { n } = dual;
    if (solution.status === "degenerate") return point.scores.slice();
    const diagonal = point.beta.reduce((sum, _, i) => sum + K[i * n + i] / n, 0);
    const allowed = Math.max(2 * point.gap, EXACT * scale(dual, point.objective, diagonal));
    const set = new slab.ActiveSet(dual, K, point, allowed);
    return point.scores.map((s, i) => {
      const stays = 1 - 1 / counts[i], bounds = dual.signs.map((sign, p) => sign * dual.caps[p][i] * stays);
      const kept = Math.min(Math.max(point.beta[i], Math.min(0, ...bounds)), Math.max(0, ...bounds));
      if (kept === point.beta[i]) return s;
      const path = set.isPossible ? new slab.Path(set, i, stays, kept) : null;
      if (path?.follow() && path.gap() <= allowed) return path.scores[i];
      /* Where the others cannot take what leaves, their boxes grow. */
      const left = dual.caps.map((all) => all.map((cap, j) => (j === i ? stays * cap : cap)));
      const growth = left.map((all, p) => Math.max(dual.totals[p] / all.reduce((a, b) => a + b, 0), 1));
      const rest = { ...dual, caps: left.map((all, p) => all.map((cap) => cap * growth[p])) };
      return slab.solver.solve(rest, K, tol, adjustSums(rest, point.multipliers, point.scores)).point.scores[i];
    });
  }

  slab.leaveOneOut = leaveOneOut;
})((globalThis.slabsvm ??= {}));
