/* face.js: the face of the feasible set on which multipliers lie, and solves on it. */
"use strict";
((slab) => {
  const { cholesky, solveLower, solveUpper, solved } = slab.matrix;
  const RIDGE = 1e-13;
  const REFINEMENTS = 2;
  const SPOILED = 1e-3;

  /**
   * The free samples F, and the bordered matrix [[K_FF, A], [A', 0]] over them, A saying which plane each supports.
   * A sample that is free in both planes ties them together: A is then one column of ones.
   */
  class Face {
    /**
     * @param {Program} dual
     * @param {Float64Array[]} multipliers
     * @param {((plane: number, sample: number) => boolean)} [isFree] strictly inside its box, where not given
     */
    constructor(dual, multipliers, isFree) {
      const { n, caps } = dual;
      isFree ??= (p, i) => multipliers[p][i] > 0 && multipliers[p][i] < caps[p][i];
      this.dual = dual;
      this.free = multipliers.map((_, p) => Uint8Array.from({ length: n }, (_, i) => (isFree(p, i) ? 1 : 0)));
      const somewhere = (i) => this.free.some((free) => free[i]);
      this.samples = Int32Array.from(Array.from({ length: n }, (_, i) => i).filter(somewhere));
      this.tied = this.free.length > 1 && this.samples.some((i) => this.free[0][i] && this.free[1][i]);
      const planes = this.free.map((_, p) => p).filter((p) => this.free[p].some((one) => one));
      this.columns = this.tied ? 1 : planes.length;
      /* Whether sample i belongs to column c, by the plane that it is free in or else supports. */
      this.members = this.tied
        ? [new Float64Array(n).fill(1)]
        : planes.map((p) =>
            Float64Array.from({ length: n }, (_, i) => Number(somewhere(i) ? this.free[p][i] : multipliers[p][i] > 0)),
          );
      this.border = this.members.map((column) => Float64Array.from(this.samples, (i) => column[i]));
    }

    /**
     * Factor K_FF + lift A A', which is regular where the bordered matrix is, with a growing ridge where rounding asks.
     * @param {Float64Array} K of all samples
     * @param {number} [most] the largest ridge, as a share of the diagonal
     * @param {number} [added] to the diagonal
     * @returns {boolean} whether it could be factored
     */
    factor(K, most = 1, added = 0) {
      const { n } = this.dual, { samples } = this, f = samples.length;
      let diagonal = 0;
      for (const i of samples) diagonal += K[i * n + i] / f;
      this.lift = diagonal > 0 ? diagonal : 1;
      for (let ridge = RIDGE; ridge <= most; ridge *= 10) {
        const a = new Float64Array(f * f);
        for (let i = 0; i < f; i++) {
          const from = samples[i] * n, to = i * f;
          for (let j = 0; j <= i; j++) a[to + j] = K[from + samples[j]];
          for (const column of this.border) if (column[i]) addTo(a, to, column, this.lift, i + 1);
          a[to + i] += ridge * this.lift + added;
        }
        if (!cholesky(a, f)) continue;
        this.lower = a;
        this.half = this.border.map((column) => this.halfSolve(column));
        const square = this.half.map((a) => this.half.map((b) => a.reduce((sum, value, i) => sum + value * b[i], 0)));
        this.schur = inverse(square);
        this.ofSums = this.border.map((_, c) =>
          this.solveOnce(new Float64Array(f), this.border.map((_, other) => Number(other === c))),
        );
        return true;
      }
      return false;
    }

    /** L^-1 of a vector over F. */
    halfSolve(right) {
      return solveLower(this.lower, this.samples.length, Float64Array.from(right));
    }

    /** x with K_FF x + A q = right and A'x = sums. */
    solve(right, sums) {
      const x = this.solveOnce(right, sums);
      for (let round = 0; round < REFINEMENTS; round++) {
        const off = this.border.map((column, c) => sums[c] - column.reduce((sum, one, i) => sum + one * x[i], 0));
        this.ofSums.forEach((column, c) => column.forEach((value, i) => (x[i] += value * off[c])));
      }
      return x;
    }

    solveOnce(right, sums) {
      const lifted = Float64Array.from(right, (value, i) =>
        this.border.reduce((sum, column, c) => sum + this.lift * column[i] * sums[c], value),
      );
      const half = this.halfSolve(lifted);
      const rest = this.half.map((b, c) => b.reduce((sum, value, i) => sum + value * half[i], 0) - sums[c]);
      this.schur.forEach((row, c) => {
        const pull = row.reduce((sum, value, other) => sum + value * rest[other], 0);
        this.half[c].forEach((value, i) => (half[i] -= value * pull));
      });
      return solveUpper(this.lower, this.samples.length, half);
    }

    /** The change of beta over F that leads to the face's optimum. */
    toOptimum(scores) {
      return this.solve(Float64Array.from(this.samples, (i) => -scores[i]), this.border.map(() => 0));
    }

    /** The change of each plane's multipliers over F for a change of beta. */
    split(change, free) {
      const { signs } = this.dual, f = change.length;
      const moves = signs.map((sign, p) => change.map((value, k) => (free[p][k] ? sign * value : 0)));
      if (signs.length < 2) return moves;
      const shared = Array.from({ length: f }, (_, k) => k).filter((k) => free[0][k] && free[1][k]);
      for (const k of shared) moves.forEach((move) => (move[k] *= 0.5));
      moves.forEach((move) => {
        if (!shared.length) return;
        const excess = move.reduce((a, b) => a + b, 0) / shared.length;
        for (const k of shared) move[k] -= excess;
      });
      return moves;
    }

    /** How much of its move each multiplier can make: [the least, its plane, its place in F]. */
    reach(now, moves) {
      let least = Infinity, plane = 0, place = 0;
      moves.forEach((move, p) =>
        move.forEach((step, k) => {
          if (step === 0) return;
          const room = step > 0 ? this.dual.caps[p][this.samples[k]] - now[p][k] : now[p][k];
          if (room / Math.abs(step) < least) (least = room / Math.abs(step)), (plane = p), (place = k);
        }),
      );
      return [least, plane, place];
    }

    /**
     * Go towards the face's optimum, turning where a multiplier meets its bound, at most so often.
     * @returns {{multipliers: Float64Array[], met: number, arrived: boolean}}
     */
    walk(multipliers, scores, most) {
      const { caps } = this.dual, { samples } = this;
      const free = this.free.map((all) => Uint8Array.from(samples, (i) => all[i]));
      const now = multipliers.map((all) => Float64Array.from(samples, (i) => all[i]));
      const columns = [], held = [];
      let ahead = this.toOptimum(scores), met = 0, arrived = false;
      while (met < most) {
        const change = held.length ? this.holding(ahead, columns, held) : ahead;
        if (change === null) break;
        const moves = this.split(change, free), [least, plane, place] = this.reach(now, moves);
        const share = Math.min(1, least);
        now.forEach((values, p) =>
          values.forEach((v, k) => (values[k] = Math.min(Math.max(v + share * moves[p][k], 0), caps[p][samples[k]]))),
        );
        ahead = ahead.map((value, k) => value - share * change[k]);
        if ((arrived = share === 1)) break;
        met++;
        now[plane][place] = moves[plane][place] > 0 ? caps[plane][samples[place]] : 0;
        free[plane][place] = 0;
        if (this.bindsOtherwise(free)) break;
        if (!free.some((one) => one[place])) {
          const unit = new Float64Array(samples.length);
          unit[place] = 1;
          columns.push(this.solve(unit, this.border.map(() => 0)));
          held.push(place);
        }
      }
      const updated = multipliers.map((all) => all.slice());
      updated.forEach((all, p) => samples.forEach((i, k) => (all[i] = now[p][k])));
      return { multipliers: updated, met, arrived };
    }

    /** A change of beta but for the samples that are held; null where rounding spoils it. */
    holding(change, columns, held) {
      const pulls = solved(held.map((k) => columns.map((column) => column[k])), held.map((k) => change[k]));
      if (pulls === null) return null;
      const left = change.map((value, k) => columns.reduce((rest, column, h) => rest - pulls[h] * column[k], value));
      for (const k of held) left[k] = 0;
      const size = left.reduce((sum, value) => sum + Math.abs(value), 0);
      for (const column of this.border) {
        let off = 0, members = 0;
        column.forEach((one, k) => (off += one * left[k]));
        const counted = column.map((one, k) => (held.includes(k) ? 0 : one));
        counted.forEach((one) => (members += one));
        if (!(Math.abs(off) <= SPOILED * size)) return null;
        counted.forEach((one, k) => (left[k] -= (one * off) / members));
      }
      return left;
    }

    /** Whether the planes of the samples that are left bind them in another way than F's did. */
    bindsOtherwise(free) {
      const count = (p) => free[p].reduce((a, b) => a + b, 0);
      if (this.tied) return !free[0].some((one, k) => one && free[1][k]);
      return free.some((_, p) => count(p) === 1);
    }
  }

  /** Add a multiple of the first so many values of a column. */
  function addTo(a, at, column, factor, count) {
    for (let j = 0; j < count; j++) a[at + j] += factor * column[j];
  }

  function inverse(a) {
    if (a.length === 0) return [];
    if (a.length === 1) return [[1 / a[0][0]]];
    const determinant = a[0][0] * a[1][1] - a[0][1] * a[1][0];
    return [[a[1][1] / determinant, -a[0][1] / determinant], [-a[1][0] / determinant, a[0][0] / determinant]];
  }

  slab.Face = Face;
})((globalThis.slabsvm ??= {}));
