/* leave-one-out.js: what each sample would score without itself, in closed form (slabsvm.dual.leave_one_out). */
"use strict";
((slab) => {
  const { dot, invertedLower } = slab.matrix;
  const AT_BOUND = 1e-12;

  /**
   * @param {Program} dual
   * @param {Float64Array} K
   * @param {Solution} solution
   * @returns {Float64Array} the scores, n
   */
  function leaveOneOut(dual, K, solution) {
    const { point } = solution, { multipliers, scores, beta } = point;
    const isFree = freeOrNext(dual, point);
    let face = solution.face;
    if (face === null || !face.free.every((all, p) => all.every((one, i) => Boolean(one) === isFree(p, i)))) {
      face = new slab.Face(dual, multipliers, isFree);
      if (face.samples.length) face.factor(K);
    }
    const falls = new Float64Array(dual.n);
    if (face.samples.length) {
      ofFree(face, falls);
      const onFace = new Set(face.samples);
      for (let i = 0; i < dual.n; i++) if (beta[i] !== 0 && !onFace.has(i)) falls[i] = ofBound(face, K, i);
    }
    return scores.map((s, i) => s - beta[i] * falls[i]);
  }

  /** Which multipliers are free, with one more in a plane that has none: the next to take what is left out. */
  function freeOrNext(dual, { multipliers, scores }) {
    const { caps, signs, n } = dual, next = new Set();
    const free = (p, i) => multipliers[p][i] > AT_BOUND * caps[p][i] && multipliers[p][i] < (1 - AT_BOUND) * caps[p][i];
    signs.forEach((sign, p) => {
      let best = -1;
      for (let i = 0; i < n; i++) {
        if (free(p, i)) return;
        const idle = multipliers[p][i] <= AT_BOUND * caps[p][i];
        if (idle && (best < 0 || sign * scores[i] < sign * scores[best])) best = i;
      }
      if (best >= 0) next.add(p * n + best);
    });
    return (p, i) => free(p, i) || next.has(p * n + i);
  }

  /** S^2 + A'q of the free samples: 1 / (M^-1)_ii, and -S^2 (M^-1)_Ai. */
  function ofFree(face, falls) {
    const f = face.samples.length, transposed = invertedLower(face.lower, f), tiny = 1e-10 / face.lift;
    for (let k = 0; k < f; k++) {
      const row = k * f + k, length = f - k;
      const coupling = face.half.map((b) => dot(transposed, row, b, k, length));
      const corner = face.schur.map((of) => of.reduce((sum, value, c) => sum + value * coupling[c], 0));
      let diagonal = dot(transposed, row, transposed, row, length);
      corner.forEach((value, c) => (diagonal -= coupling[c] * value));
      const span = diagonal > tiny ? 1 / diagonal : 0;
      const pull = face.border.reduce((sum, column, c) => sum + column[k] * corner[c], 0);
      falls[face.samples[k]] = span - span * pull;
    }
  }

  /** The same of a sample at its bound: K_ii - k_i'M^-1 k_i, and (M^-1 k_i)_A. */
  function ofBound(face, K, i) {
    const { n } = face.dual, member = face.members.map((column) => column[i]);
    const row = Float64Array.from(face.samples, (j, k) =>
      face.border.reduce((sum, column, c) => sum + face.lift * member[c] * column[k], K[i * n + j]),
    );
    const half = face.halfSolve(row), f = half.length;
    const rest = face.half.map((b, c) => dot(b, 0, half, 0, f) - member[c]);
    const corner = face.schur.map((of) => of.reduce((sum, value, c) => sum + value * rest[c], 0));
    let span = K[i * n + i] - dot(half, 0, half, 0, f);
    member.forEach((one, c) => (span += face.lift * one * one + rest[c] * corner[c]));
    return Math.max(span, 0) + member.reduce((sum, one, c) => sum + one * corner[c], 0);
  }

  slab.leaveOneOut = leaveOneOut;
})((globalThis.slabsvm ??= {}));
