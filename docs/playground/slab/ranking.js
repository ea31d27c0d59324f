/* ranking.js: the two-sided score of positions along w (slabsvm.detectors.two_sided). */
"use strict";
((slab) => {
  const { weightedQuantile } = slab.program;
  const OUT_OF_REACH = 1e-3;
  const LEAST_SIDE = 0.01;
  const UNITS_OF_ROUNDING = 1e4;
  const LOWEST = -1e300;
  const LEAST_DEPTH = 1e-3;

  /**
   * Return the score: 1 at the most normal position, 0 on both planes, negative beyond them.
   * @param {Float64Array} scores where positives lie
   * @param {number[]} weights how many rows each sample is
   * @param {{side: number, planes: number[], nus: number[], local: boolean, rounding: number}} of
   * @returns {((position: number, logMass?: () => number) => number) & {peak: number}} peak: a position
   */
  function twoSided(scores, weights, { side, planes, nus, local, rounding }) {
    const [inner, outer] = side > 0 ? planes : [-planes[1], -planes[0]];
    const [near, far] = side > 0 ? nus : [nus[1], nus[0]];
    const positions = scores.map((s) => side * s), total = weights.reduce((a, b) => a + b, 0);
    const shares = weights.map((w) => w / total);
    /* As of a one-class SVM's plane: a share below half a row is that of half a one. */
    const least = 0.5 / total;
    const quantile = (share) => {
      const bound = Math.max(share, least);
      return weightedQuantile(positions, shares.map((s) => s / bound), 1);
    };
    const room = LEAST_SIDE * (outer - inner);
    const peak = Math.min(Math.max(quantile(near / (near + far)), inner + room), outer - room);
    const leastUnit = Math.max(UNITS_OF_ROUNDING * rounding, 2 ** -1022);
    const unit = Math.max(peak - inner, leastUnit);
    const levels = local && inner > 0;
    let depth = LEAST_DEPTH;

    const score = (along, logMass) => {
      const position = side * along;
      if (position > outer) {
        const excess = position - outer;
        return levels ? (-depth * excess) / (excess + (outer - inner)) : -excess / unit;
      }
      if (position < inner && levels) {
        const reach = OUT_OF_REACH * inner;
        let log = Math.log1p((Math.max(position, reach) - inner) / inner);
        if (position < reach) {
          log += (position - reach) / inner;
          if (logMass) log += Math.min(logMass() - Math.log(reach), 0);
        }
        return Math.max(log * (inner / unit), LOWEST);
      }
      return Math.min((position - inner) / unit, (outer - position) / Math.max(outer - peak, leastUnit));
    };
    depth = Math.max(LEAST_DEPTH, -score(side * quantile((near * far) / (near + far))));
    score.peak = side * peak;
    return score;
  }

  slab.twoSided = twoSided;
})((globalThis.slabsvm ??= {}));
