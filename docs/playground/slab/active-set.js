/* active-set.js: the active set of an optimum, and how the optimum moves while it stays. */
"use strict";
((slab) => {
  /* What a sample is: 2p + 1 where it is free in plane p, 2p + 2 where it is at its cap there. */
  const IDLE = 0;
  /* A multiplier so near a bound, as a share of its cap, is at it: sums of caps leave rounding behind. */
  const AT_BOUND = 1e-12;
  /* What is added to K's diagonal may make this share of the allowed gap, and move scores by that of their spread. */
  const ADDED = 0.01;
  const TOLD_APART = 0.01;
  const LEAST = 1e-12;
  const MOST = 1e-2;

  const isFree = (status) => status % 2 === 1;
  const planeOf = (status) => (status === IDLE ? 0 : (status - 1) >> 1);

  /**
   * What an optimum's samples are, and where its planes lie; of planes that a sample ties, one, in which beta may be
   * negative. A nearly singular K lets mass move from bound to bound, at no gain: paths are those of K + added I.
   */
  class ActiveSet {
    /**
     * @param {Program} dual
     * @param {Float64Array} K
     * @param {Point} point the optimum
     * @param {number} allowed the gap that its paths may leave
     */
    constructor(dual, K, point, allowed) {
      const { n, caps } = dual, { multipliers, beta } = point;
      const all = Array.from({ length: n }, (_, i) => i), planes = caps.map((_, p) => p);
      const isBetween = (value, low, high) => value > low + AT_BOUND * Math.abs(low) && value < (1 - AT_BOUND) * high;
      const isInside = (p, i) => multipliers[p][i] > AT_BOUND * caps[p][i] && isBetween(multipliers[p][i], 0, caps[p][i]);
      this.dual = dual;
      this.K = K;
      this.point = point;
      this.added = this.addedTo(all.reduce((sum, i) => sum + K[i * n + i] / n, 0), allowed);
      this.isTied = all.some((i) => planes.length > 1 && planes.every((p) => isInside(p, i)));
      this.signs = this.isTied ? [1] : dual.signs;
      this.floor = this.isTied ? caps[1].map((cap) => -cap) : new Float64Array(n);
      const next = planes.map((p) => (all.some((i) => isInside(p, i)) ? -1 : this.nextOf(p)));
      this.face = new slab.Face(dual, multipliers, (p, i) =>
        this.isTied ? isBetween(beta[i], -caps[1][i], caps[0][i]) : isInside(p, i) || next[p] === i,
      );
      /* What both planes hold of a sample, but where they are one, beta does not tell. */
      const isShared = !this.isTied && planes.length > 1 && all.some((i) => planes.every((p) => multipliers[p][i] > 0));
      this.isPossible = this.face.columns === this.signs.length && !isShared && this.face.factor(K, 1, this.added);
      this.status = Uint8Array.from(all, (i) => {
        const free = this.face.free.findIndex((some) => some[i]);
        if (free >= 0) return 2 * (this.isTied ? 0 : free) + 1;
        const capped = this.signs.findIndex((sign, p) => sign * beta[i] > 0.5 * caps[p][i]);
        return capped < 0 ? IDLE : 2 * capped + 2;
      });
      this.place = new Int32Array(n).fill(-1);
      this.face.samples.forEach((i, k) => (this.place[i] = k));
      this.offsets = this.meanOfFree(point.scores);
      this.directions = new Map();
    }

    /** What is added to K's diagonal, whose mean is given. */
    addedTo(diagonal, allowed) {
      const { scores, beta } = this.point, { n } = this.dual, mean = scores.reduce((a, b) => a + b, 0) / n;
      const variance = scores.reduce((sum, s) => sum + (s - mean) ** 2, 0) / n;
      const largest = beta.reduce((most, b) => Math.max(most, b * b), 0);
      const added = (ADDED * Math.min(allowed, (TOLD_APART ** 2 * variance) / diagonal)) / (2 * largest);
      return Math.min(Math.max(added, LEAST * diagonal), MOST * diagonal);
    }

    /** In a plane without a free sample, the one that is next to take what is left out; -1 for none. */
    nextOf(plane) {
      const { caps, signs } = this.dual, { multipliers, scores } = this.point;
      let best = -1;
      multipliers[plane].forEach((v, i) => {
        const isLower = best < 0 || signs[plane] * scores[i] < signs[plane] * scores[best];
        if (v <= AT_BOUND * caps[plane][i] && isLower) best = i;
      });
      return best;
    }

    isOnFace(i) {
      return this.place[i] >= 0;
    }

    /** The mean of values over the free samples of each plane. */
    meanOfFree(values) {
      return this.signs.map((_, p) => {
        let sum = 0, count = 0;
        for (const i of this.face.samples) if (this.status[i] === 2 * p + 1) (sum += values[i]), count++;
        return sum / count;
      });
    }

    /**
     * How beta, the scores and the offsets change: of a free sample, as its score moves off its plane by 1; of another,
     * as its beta grows by 1, which the free samples of a plane make up for.
     * @returns {{change: Float64Array, moved: Float64Array, shift: number[]}}
     */
    direction(i, plane) {
      if (this.isOnFace(i)) return this.kept(i, (j) => Number(j === i), [0, 0], i);
      const { K, dual } = this;
      return this.kept(dual.n * (1 + plane) + i, (j) => -K[i * dual.n + j], [-(plane === 0), -(plane === 1)], i);
    }

    /** The same, as the first plane's free samples take 1 from the second's. */
    exchange() {
      return this.kept(-1, () => 0, [1, -1], -1);
    }

    kept(name, right, sums, i) {
      const found = this.directions.get(name) ?? this.solved(right, sums, i);
      this.directions.set(name, found);
      return found;
    }

    solved(right, sums, i) {
      const { K, face, added } = this, { n } = this.dual, own = i >= 0 && this.isOnFace(i);
      const x = face.solve(Float64Array.from(face.samples, right), sums.slice(0, face.columns));
      const change = new Float64Array(n);
      face.samples.forEach((j, k) => (change[j] = x[k]));
      if (i >= 0 && !own) change[i] = 1;
      const moved = change.map((share) => added * share);
      for (let j = 0; j < n; j++) {
        const share = change[j], row = j * n;
        if (share !== 0) for (let to = 0; to < n; to++) moved[to] += share * K[row + to];
      }
      return { change, moved, shift: this.meanOfFree(own ? moved.map((value, j) => value - Number(j === i)) : moved) };
    }
  }

  slab.ActiveSet = Object.assign(ActiveSet, { IDLE, isFree, planeOf });
})((globalThis.slabsvm ??= {}));
