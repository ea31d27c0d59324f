/* leave-one-out.js: what each sample would score without itself (slabsvm.dual.leave_one_out). */
"use strict";
((slab) => {
  const { adjustSums, scale } = slab.program;
  /* A path arrives where the gap is this share of the objective; where it does not, it is far larger. */
  const EXACT = 1e-7;
  /* A free sample can pass on what it leaves where it has this share of K's diagonal for itself. */
  const LEAST_SHARE = 1e-10;

  /**
   * Return the score of each sample under the model without it: the program whose caps of that sample are 0. A path leads
   * there from the present solution; where it does not arrive, the program is solved. A sample that is no support vector
   * changes nothing.
   * @param {Program} dual
   * @param {Float64Array} K
   * @param {Solution} solution
   * @param {number} tol of programs that are solved
   * @returns {Float64Array} the scores, n
   */
  function leaveOneOut(dual, K, solution, tol) {
    const { point } = solution, { n } = dual;
    const diagonal = point.beta.reduce((sum, _, i) => sum + K[i * n + i] / n, 0);
    const allowed = Math.max(2 * point.gap, EXACT * scale(dual, point.objective, diagonal));
    const set = new slab.ActiveSet(dual, K, point, allowed);
    const sums = dual.caps.map((all) => all.reduce((a, b) => a + b, 0));
    return point.scores.map((s, i) => {
      if (point.beta[i] === 0) return s;
      /* Where w is 0, or the others cannot take what the sample leaves, nobody meets a bound. */
      const isKnown = solution.status !== "degenerate" && sums.every((sum, p) => sum - dual.caps[p][i] >= dual.totals[p]);
      if (!isKnown) return s + (set.isPossible ? firstPiece(set, i) : 0);
      const path = set.isPossible ? new slab.Path(set, i) : null;
      if (path?.follow() && path.gap() <= allowed) return path.scores[i];
      const caps = dual.caps.map((all) => all.map((cap, j) => (j === i ? 0 : cap))), rest = { ...dual, caps };
      return slab.solver.solve(rest, K, tol, adjustSums(rest, point.multipliers, point.scores)).point.scores[i];
    });
  }

  /** What sample i's score moves by where no status changes: the closed form. */
  function firstPiece(set, i) {
    const beta = set.point.beta[i], { change, moved } = set.direction(i, slab.ActiveSet.planeOf(set.status[i]));
    if (!set.isOnFace(i)) return -beta * moved[i];
    return change[i] * set.face.lift > LEAST_SHARE ? (-beta * moved[i]) / change[i] : 0;
  }

  slab.leaveOneOut = leaveOneOut;
})((globalThis.slabsvm ??= {}));
