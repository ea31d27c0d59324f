/* unlearning.js: the path from an optimum to the optimum without a row (in the package: src/slabsvm/core/leaving.h). */
"use strict";
((slab) => {
  const { solved } = slab.matrix;
  const { IDLE, isFree, planeOf } = slab.ActiveSet;
  const GONE = 254;
  /* What ends a piece, where it is no sample: nothing, or that the planes meet. */
  const NONE = -1;
  const MEET = -2;
  const EVENTS = 500;
  /* A distance this small is no reason for the same event again. */
  const TINY = 1e-12;
  /* Sums and boxes are kept to within this share of the multipliers' sum. */
  const FEASIBLE = 1e-9;

  /**
   * Cauwenberghs and Poggio (2001): the multiplier of what leaves goes to 0, or to what its copies may hold, and all
   * others stay optimal. An event ends each straight piece: a free multiplier meets its bound, a sample at its bound its
   * plane, or one plane the other; they are one from then on. Samples that are no longer what they were at first have an unknown each: how much there is of a
   * direction of the active set.
   */
  class Path {
    /**
     * @param {ActiveSet} set
     * @param {number} leaving
     * @param {number} stays the share of its box that stays
     * @param {number} kept what its beta goes to
     */
    constructor(set, leaving, stays, kept) {
      Object.assign(this, { set, leaving, stays, kept });
      this.amount = set.point.beta[leaving] - kept;
      this.home = planeOf(set.status[leaving]);
      this.status = set.status.slice();
      this.status[leaving] = GONE;
      this.beta = set.point.beta.slice();
      this.scores = set.point.scores.slice();
      this.offsets = set.offsets.slice();
      this.hasMet = false;
      this.last = NONE;
    }

    /** Follow the path; return whether it comes to its end. */
    follow() {
      let left = 1;
      for (let event = 0; event < EVENTS; event++) {
        const piece = this.hasHolders() ? this.piece() : null;
        if (piece === null) return false;
        const { step, first, becomes } = this.firstEvent(piece, left);
        this.go(piece, step);
        left -= step;
        if (first === MEET) this.meet();
        else if (first !== NONE) this.become(first, becomes);
        else return this.arrive();
      }
      return false;
    }

    /** Give each plane without a free sample the next one; return whether all have one. */
    hasHolders() {
      if (this.hasMet) return this.status.includes(1);
      return this.offsets.every((offset, p) => {
        if (this.status.includes(2 * p + 1)) return true;
        const takes = this.last === NONE || this.status[this.last] !== IDLE, wanted = takes ? IDLE : 2 * p + 2;
        let next = NONE, least = Infinity;
        this.status.forEach((one, j) => {
          const distance = Math.abs(this.scores[j] - offset);
          if (one === wanted && distance < least) (least = distance), (next = j);
        });
        if (next === NONE) return false;
        this.offsets[p] = this.scores[next];
        this.status[next] = 2 * p + 1;
        return true;
      });
    }

    /**
     * What is no longer as at first: how much of a direction there is, and what of all directions must come to a target.
     * @returns {{part: object, off: (direction: object) => number, own?: number, target?: number}[]}
     */
    unknowns() {
      const { set, leaving, hasMet } = this, found = [];
      this.status.forEach((status, j) => {
        const isHere = set.isOnFace(j), p = planeOf(status), isSame = hasMet && isHere && isFree(status);
        if (status === set.status[j] || isSame) return;
        const grown = ({ change }) => change[j], beside = ({ moved, shift }) => moved[j] - shift[p];
        if (isFree(status)) found.push({ part: set.direction(j, p), off: beside });
        else if (isHere) found.push({ part: set.direction(j), off: grown, target: j === leaving ? -1 : 0 });
        /* Free in another plane than at first: what it takes there, its first plane's others give to that one's. */
        if (isFree(status) && isHere) found.push({ part: set.exchange(), off: grown, own: p === 1 ? 1 : -1 });
      });
      if (hasMet) found.push({ part: set.exchange(), off: ({ shift }) => shift[0] - shift[1] });
      return found;
    }

    /** How all changes for a unit of the path, while nobody's status does; null where that is not known. */
    piece() {
      const { set, leaving, amount } = this, unknowns = this.unknowns();
      const own = set.isOnFace(leaving) ? null : set.direction(leaving, this.home);
      const right = unknowns.map(({ off, target = 0 }) => amount * (own ? off(own) : target));
      const parts = unknowns.map(({ part }) => part);
      const system = unknowns.map(({ off, own = 0 }, a) => parts.map((part, b) => off(part) - (a === b ? own : 0)));
      const shares = solved(system, right);
      if (shares === null) return null;
      if (own) parts.push(own), shares.push(-amount);
      const change = new Float64Array(set.dual.n), moved = new Float64Array(set.dual.n);
      parts.forEach((part, k) => {
        addTo(change, shares[k], part.change);
        addTo(moved, shares[k], part.moved);
      });
      const shift = set.signs.map((_, p) => parts.reduce((sum, part, k) => sum + shares[k] * part.shift[p], 0));
      return { change, moved, shift };
    }

    /** How far a piece goes, what ends it, and what a sample that does so becomes. */
    firstEvent({ change, moved, shift }, left) {
      const { set, status, beta, scores, offsets, hasMet } = this, { signs, floor, dual } = set;
      let step = left, first = NONE, becomes = IDLE;
      const meets = (room, speed, who, what) => {
        if (room < step * speed) (step = Math.max(room / speed, 0)), (first = who), (becomes = what);
      };
      for (let j = 0; j < status.length; j++) {
        if (status[j] === GONE) continue;
        if (isFree(status[j])) {
          const p = planeOf(status[j]), speed = signs[p] * change[j], value = signs[p] * beta[j];
          if (speed > 0) meets(dual.caps[p][j] - value, speed, j, 2 * p + 2);
          else if (hasMet) meets(value + dual.caps[1][j], -speed, j, 4);
          else meets(value - floor[j], -speed, j, IDLE);
          continue;
        }
        for (let p = 0; p < signs.length; p++) {
          if (status[j] !== IDLE && planeOf(status[j]) !== p) continue;
          /* Idle samples meet a plane from the side that it wants, and those at a cap from the other. */
          const side = status[j] === IDLE ? signs[p] : -signs[p], room = side * (scores[j] - offsets[p]);
          const isNew = j !== this.last || room > TINY * set.face.lift;
          if (isNew) meets(room, side * (shift[p] - moved[j]), j, hasMet ? 1 : 2 * p + 1);
        }
      }
      if (signs.length > 1 && !hasMet) meets(Math.max(offsets[1] - offsets[0], 0), shift[0] - shift[1], MEET);
      return { step, first, becomes };
    }

    go({ change, moved, shift }, step) {
      addTo(this.beta, step, change);
      addTo(this.scores, step, moved);
      this.offsets = this.offsets.map((offset, p) => offset + step * shift[p]);
    }

    become(sample, status) {
      const { signs, floor, dual } = this.set, p = planeOf(status);
      if (status === IDLE) this.beta[sample] = floor[sample];
      else if (!isFree(status)) this.beta[sample] = signs[p] * dual.caps[p][sample];
      this.status[sample] = status;
      this.last = sample;
    }

    /** Both planes lie on all samples between them; what counts of these is beta. */
    meet() {
      this.hasMet = true;
      this.status = this.status.map((status) => (isFree(status) || status === IDLE ? 1 : status));
    }

    /** What was added to K's diagonal is no part of the scores. */
    arrive() {
      const { beta, scores, set } = this;
      beta[this.leaving] = this.kept;
      beta.forEach((b, j) => (scores[j] -= set.added * (b - set.point.beta[j])));
      return true;
    }

    /** The duality gap of the program without what leaves, here; infinite where sums or boxes are missed by too much. */
    gap() {
      const { set, beta, scores, offsets, leaving, stays } = this, { totals, signs, caps } = set.dual;
      const least = FEASIBLE * totals.reduce((a, b) => a + b, 0), missing = totals.slice();
      let gap = 0, room = least, off = 0;
      beta.forEach((b, j) => {
        let spare = Infinity;
        signs.forEach((sign, p) => {
          const distance = sign * (scores[j] - (offsets[p] ?? offsets[0])), v = Math.max(sign * b, 0);
          const cap = j === leaving ? stays * caps[p][j] : caps[p][j];
          gap += (distance > 0 ? v : Math.min(v - cap, 0)) * distance;
          off = Math.max(off, v - cap);
          missing[p] -= v;
          spare = Math.min(spare, cap - v);
        });
        room += Math.max(spare, 0);
      });
      /* What beta does not show is held by both planes of the same samples, where they are one. */
      const most = Math.max(...missing), isKept = most - Math.min(...missing) <= least && Math.min(...missing) >= -least;
      return off <= least && isKept && most <= (set.isTied || this.hasMet ? room : least) ? gap : Infinity;
    }
  }

  function addTo(total, share, values) {
    for (let j = 0; j < total.length; j++) total[j] += share * values[j];
  }

  slab.Path = Path;
})((globalThis.slabsvm ??= {}));
