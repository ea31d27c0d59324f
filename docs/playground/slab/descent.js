/* descent.js: sequential minimal optimisation with conjugate steps (in the package: src/slabsvm/core/descent.h). */
"use strict";
((slab) => {
  /* Variables that a conjugate direction may move before it starts afresh, and how independent it must be. */
  const LONGEST = 10;
  const INDEPENDENT = 1e-3;
  const CURVATURE_FLOOR = 1e-12;

  /* What a multiplier may do, as a bit of its sample's mask, for each plane. */
  const RISE = [1, 4];
  const FALL = [2, 8];

  /**
   * Move all scores along image, and find the samples of the least and greatest score that may move each way.
   * One pass does both: it is where the time goes.
   * @param {Int32Array} ends lowest that may rise, highest that may fall, and of a second plane, whose slopes have the
   *   other sign, highest that may rise and lowest that may fall; -1 for none
   */
  function follow(scores, image, length, masks, ends) {
    let a = Infinity, b = -Infinity, c = -Infinity, d = Infinity, ia = -1, ib = -1, ic = -1, id = -1;
    for (let i = 0; i < scores.length; i++) {
      const s = (scores[i] += length * image[i]), mask = masks[i];
      if (s < a && mask & 1) (a = s), (ia = i);
      if (s > b && mask & 2) (b = s), (ib = i);
      if (s > c && mask & 4) (c = s), (ic = i);
      if (s < d && mask & 8) (d = s), (id = i);
    }
    ends[0] = ia;
    ends[1] = ib;
    ends[2] = ic;
    ends[3] = id;
  }

  function planeGap(scores, sign, values, caps, n, rho) {
    let gap = 0;
    for (let i = 0; i < n; i++) {
      const distance = sign * scores[i] - rho;
      gap += (distance > 0 ? values[i] : values[i] - caps[i]) * distance;
    }
    return gap;
  }

  /**
   * Move the pair that violates optimality most, in the plane where it does, until the gap is small or steps run out.
   * @param {Program} dual
   * @param {Float64Array} K
   * @param {Point} point where to begin
   * @param {number} diagonal the mean of K's
   * @param {number} tol
   * @param {number} most
   * @returns {{multipliers: Float64Array[], steps: number}}
   */
  function descend(dual, K, point, diagonal, tol, most) {
    const { n, signs, caps } = dual, planes = signs.length;
    const multipliers = point.multipliers.map((v) => v.slice());
    const middle = point.scores.slice().sort()[n >> 1];
    const scores = point.scores.map((s) => s - middle);
    const floor = CURVATURE_FLOOR * diagonal;
    const smallest = slab.program.scale(dual, 0, diagonal);
    const resolution = 4 * Number.EPSILON * scores.reduce((a, s) => Math.max(a, Math.abs(s)), 0);
    const checkEvery = Math.max(32, n >> 2);
    const image = new Float64Array(n), ends = new Int32Array(4), masks = new Uint8Array(n);
    const allow = (p, i) => {
      const v = multipliers[p][i];
      masks[i] &= ~(RISE[p] | FALL[p]);
      masks[i] |= (v < caps[p][i] ? RISE[p] : 0) | (v > 0 ? FALL[p] : 0);
    };
    for (let p = 0; p < planes; p++) for (let i = 0; i < n; i++) allow(p, i);
    const moved = [], amounts = [];
    let objective = point.objective, curvature = 0, steps = 0, length = 0;
    for (; steps < most; steps++) {
      follow(scores, image, length, masks, ends);
      let worst = 0, violation = -Infinity;
      for (let p = 0; p < planes; p++) {
        const up = ends[2 * p], down = ends[2 * p + 1];
        const of = up < 0 || down < 0 ? -Infinity : signs[p] * (scores[down] - scores[up]);
        if (of > violation) (violation = of), (worst = p);
      }
      if (!(violation > resolution)) break;
      if (steps % checkEvery === 0) {
        let gap = 0;
        for (let p = 0; p < planes; p++) {
          const middle = 0.5 * (scores[ends[2 * p]] + scores[ends[2 * p + 1]]);
          gap += planeGap(scores, signs[p], multipliers[p], caps[p], n, signs[p] * middle);
        }
        if (gap <= tol * Math.max(Math.abs(objective), smallest)) break;
      }
      const up = ends[2 * worst], down = ends[2 * worst + 1];
      const sign = signs[worst];
      let pair = K[up * n + up] + K[down * n + down] - 2 * K[up * n + down], mixing = 0;
      /* Conjugate to the last direction, along which the gradient is zero. */
      if (moved.length > 0 && moved.length <= LONGEST) {
        const coupling = sign * (image[up] - image[down]), conjugate = pair - (coupling * coupling) / curvature;
        if (conjugate > INDEPENDENT * pair && conjugate > floor) (mixing = -coupling / curvature), (pair = conjugate);
      }
      if (mixing === 0) moved.length = amounts.length = 0;
      curvature = Math.max(pair, floor);
      for (let k = 0; k < amounts.length; k++) amounts[k] *= mixing;
      for (const [sample, share] of [[up, 1], [down, -1]]) {
        const name = worst * n + sample, place = moved.indexOf(name);
        if (place < 0) moved.push(name), amounts.push(share);
        else amounts[place] += share;
      }
      let blocking = -1;
      length = violation / curvature;
      for (let k = 0; k < moved.length; k++) {
        const p = moved[k] >= n ? 1 : 0, i = moved[k] - p * n, v = multipliers[p][i];
        const room = amounts[k] > 0 ? caps[p][i] - v : v;
        if (length * Math.abs(amounts[k]) > room) (length = room / Math.abs(amounts[k])), (blocking = k);
      }
      objective -= length * (violation - 0.5 * length * curvature);
      for (let k = 0; k < moved.length; k++) {
        const p = moved[k] >= n ? 1 : 0, i = moved[k] - p * n, cap = caps[p][i];
        const v = Math.min(Math.max(multipliers[p][i] + length * amounts[k], 0), cap);
        multipliers[p][i] = k === blocking ? (amounts[k] > 0 ? cap : 0) : v;
        allow(p, i);
      }
      for (let i = 0, a = up * n, b = down * n; i < n; i++) {
        image[i] = sign * (K[a + i] - K[b + i]) + mixing * image[i];
      }
      if (blocking >= 0) moved.length = amounts.length = 0;
    }
    return { multipliers, steps };
  }

  slab.descent = { descend };
})((globalThis.slabsvm ??= {}));
