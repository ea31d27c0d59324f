/* planes.js: where planes are put, so that rows far away are outside, and what is said of it (slabsvm.fitted). */
"use strict";
((slab) => {
  const { accepts, isOuter, nus, side, weightedQuantile } = slab.program;
  const ROOM = 0.02;

  /**
   * Return where planes belong by scores of rows that were not learned: at quantiles, but not where rows tie. The plane
   * that faces away from the origin goes by the outer ones, and beyond ties by a share of the width.
   * @param {number[]} weights how many rows each sample is
   */
  function offsetsBy(dual, scores, outer, weights, rounding) {
    const own = dual.signs.map((sign, p) => (isOuter(dual, p) ? outer : scores).map((s) => sign * s));
    const isTied = (values, place) =>
      weights.reduce((sum, w, i) => sum + (Math.abs(values[i] - place) <= rounding ? w : 0), 0) > 1;
    const bounds = own.map((values, p) => {
      const found = weightedQuantile(values, dual.caps[p], dual.totals[p]);
      const below = Math.max(...values.filter((s) => s < found - rounding));
      return isTied(values, found) && below > -Infinity ? 0.5 * (found + below) : found;
    });
    const width = Math.max(-bounds.reduce((a, b) => a + b), 0);
    const isBeyond = (p) => isOuter(dual, p) && isTied(own[p], bounds[p]);
    return bounds.map((bound, p) => dual.signs[p] * (isBeyond(p) ? bound - ROOM * width : bound));
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
      /* By what is left as the row leaves. */
      let others = beta[i] * K[i * n + i] * (1 - 1 / weights[i]);
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

  slab.planes = { offsetsBy, outside };
})((globalThis.slabsvm ??= {}));
