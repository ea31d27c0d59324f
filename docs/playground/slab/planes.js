/* planes.js: where the planes are put, and what is said of it (slabsvm.detectors: repeats, infinity). */
"use strict";
((slab) => {
  const { accepts, nus, offsets, side } = slab.program;
  const { LOST_RECALL } = slab.warnings;
  const SAME_WEIGHT = 1e-9;
  const ROOM = 0.02;

  /**
   * Put planes that would reject rows that repeat a sample by these rows.
   * @param {Float64Array} leftOut
   * @param {number[]} rho by left-out scores
   * @returns {{lying: Float64Array, rho: number[]}} where new rows lie, and planes for them
   */
  function besideRepeats(dual, scores, leftOut, rho, rounding) {
    const weights = dual.caps[0], least = Math.min(...weights), total = weights.reduce((a, b) => a + b, 0);
    const repeat = weights.map((w) => Number(w > (1 + SAME_WEIGHT) * least)), shares = nus(dual);
    const moved = dual.signs.map((sign, p) => {
      let lost = 0;
      scores.forEach((s, i) => (lost += repeat[i] && sign * (s - rho[p]) < -rounding ? weights[i] / total : 0));
      return lost > LOST_RECALL + (sign * side(dual) < 0 ? 0 : shares[p]);
    });
    if (!moved.some(Boolean)) return { lying: leftOut, rho };
    const lying = scores.map((s, i) => (repeat[i] ? s : leftOut[i])), byThem = offsets(dual, lying);
    const bounds = rho.map((value, p) => dual.signs[p] * value);
    const wider = bounds.map((bound, p) => (moved[p] ? Math.min(dual.signs[p] * byThem[p], bound) : bound));
    const width = dual.signs.length === 2 ? Math.max(-(wider[0] + wider[1]), 0) : 0;
    return {
      lying,
      rho: bounds.map((bound, p) => {
        const sign = dual.signs[p];
        return sign * (moved[p] ? Math.min(sign * byThem[p] - ROOM * width, bound) : bound);
      }),
    };
  }

  /**
   * Keep a row infinitely far away outside, or say that it is inside.
   * @param {object} of dual, K, beta, rows, weights, kernel, kernelName, nominal, remedy
   * @returns {{rho: number[], warning: string}}
   */
  function outside({ dual, K, beta, rows, weights, kernel, kernelName, remedy }, scores, rho, rounding) {
    const { n } = dual, way = side(dual), total = weights.reduce((a, b) => a + b, 0);
    const share = (of) => weights.reduce((sum, w, i) => sum + (of(i) ? w / total : 0), 0);
    if (!kernel.local) {
      if (accepts(dual, 0, rho, rounding)) {
        return { rho, warning: slab.warnings.unlikeAll(share((i) => way * scores[i] <= rounding)) };
      }
      const far = kernel.far(rows, beta), lengths = rows.map((_, i) => K[i * n + i]);
      const isInside = far !== null && !slab.warnings.ofOneLength(lengths) && accepts(dual, far, rho, rounding);
      return { rho, warning: isInside ? slab.warnings.beyondAll(far, kernelName) : "" };
    }
    const outsideZero = (value) => way * Math.max(way * value, 2 * rounding);
    const kept = rho.map(outsideZero);
    if (kept.every((value, p) => value === rho[p])) return { rho, warning: "" };
    const reached = rows.map((_, i) => {
      let others = 0;
      for (let j = 0; j < n; j++) if (j !== i) others += beta[j] * K[i * n + j];
      return way * others > rounding;
    });
    const within = (i) => accepts(dual, outsideZero(scores[i]), kept, rounding);
    const nominal = 1 - nus(dual).reduce((a, b) => a + b, 0);
    const warning = slab.warnings.unreached(
      share((i) => !reached[i]), share((i) => reached[i] && within(i)), nominal, remedy,
    );
    return { rho: kept, warning };
  }

  slab.planes = { besideRepeats, outside };
})((globalThis.slabsvm ??= {}));
