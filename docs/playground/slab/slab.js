/* slab.js: the answer to a question: a slab fitted to its points, and where its grid lies along w. */
"use strict";
((slab) => {
  const { Point, accepts, adjustSums, isOuter, program, side } = slab.program;
  const TOL = 1e-6;
  const ROUNDING_UNITS = 1024;
  const MOST = 0.5;
  const LARGEST_EPSILON = 1 / Number.EPSILON;

  /**
   * @typedef {object} Question
   * @property {number[][]} points
   * @property {number[][]} stars
   * @property {{kernel: string, gamma: number | string, nu_lower: number, nu_upper: number, epsilon: number,
   *   calibration: string}} parameters
   * @property {{x: number[], y: number[]}} grid from, to and count of the nodes
   */

  /** A question that has no answer; the text says what to do. */
  class QuestionError extends Error {}

  /** Raise QuestionError for parameters and points that make no slab. */
  function check({ points, parameters: { kernel, nu_lower, nu_upper, epsilon } }) {
    if (points.length < 2) {
      throw new QuestionError(`A slab is learned from 2 points or more, and there are ${points.length}. Add some.`);
    }
    if (epsilon !== 0 && !(epsilon >= Number.EPSILON && epsilon <= LARGEST_EPSILON)) {
      throw new QuestionError("epsilon must be 0, or a number above it that rounding keeps. The paper uses 2/3.");
    }
    if (epsilon !== 0 && nu_lower + nu_upper >= 1) {
      throw new QuestionError(
        `nu_lower + nu_upper must be less than 1, got ${nu_lower} + ${nu_upper}: the lower plane would be put ` +
          "above the upper one, and nothing would lie between them. Typical values are nu_lower=0.1 and nu_upper=0.01.",
      );
    }
    if (epsilon === 1) {
      throw new QuestionError(
        "epsilon must not be 1: both planes would pull equally, and w = 0 would be the solution. The paper uses " +
          "2/3; values above 1 exchange the roles of the planes.",
      );
    }
    if (slab.kernels.named[kernel](1).nonNegative) {
      const least = Math.min(...points.flat());
      if (least < 0) {
        throw new QuestionError(
          `Negative values in data: the ${kernel} kernel is defined for non-negative features such as histograms, and ` +
            `the least value here is ${slab.warnings.general(least, 4)}. Shift or scale the features, for example with ` +
            "MinMaxScaler(clip=True), or choose kernel='rbf' or kernel='linear'.",
        );
      }
    }
  }

  const nodes = ([from, to, count]) => Float64Array.from({ length: count }, (_, i) => from + ((to - from) * i) / (count - 1));

  /** Multipliers to start from, by what the last answer's were; null where there are none. */
  function startFrom(memory, dual, K, rows) {
    if (!memory?.size || memory.planes !== dual.signs.length) return null;
    let known = false;
    const shares = rows.map(([x, y]) => memory.get(`${x},${y}`));
    const multipliers = dual.caps.map((caps, p) =>
      caps.map((cap, i) => (shares[i] ? ((known = true), shares[i][p] * cap) : 0)),
    );
    return known ? adjustSums(dual, multipliers, new Point(dual, multipliers, K).scores) : null;
  }

  /**
   * Fit a slab to the question's points, and say where everything lies.
   * @param {Question} question
   * @param {Map<string, number[]>} [memory] shares of the caps by point, which the next fit starts from; updated
   * @param {number} [tol]
   */
  function answer(question, memory, tol = TOL) {
    check(question);
    const begun = performance.now();
    const { points, parameters } = question;
    const { rows, weights, group } = slab.rows.distinct(points);
    const gamma = slab.rows.gammaValue(parameters.gamma, points, rows);
    const kernel = slab.kernels.named[parameters.kernel](gamma), K = slab.kernels.gram(kernel, rows);
    const dual = program(weights, parameters.nu_lower, parameters.nu_upper, parameters.epsilon);
    const solution = slab.solver.solve(dual, K, tol, startFrom(memory, dual, K, rows));
    const { beta, multipliers, scores } = solution.point;
    const leftOut = parameters.calibration === "training" ? null : slab.leaveOneOut(dual, K, solution, weights, tol);
    const fit = planesOf({ parameters, rows, weights, kernel, K, dual, solution, leftOut });
    if (memory) {
      memory.clear();
      memory.planes = dual.signs.length;
      rows.forEach(([x, y], i) => memory.set(`${x},${y}`, multipliers.map((all, p) => all[i] / dual.caps[p][i])));
    }
    const within = (s) => fit.lower <= s && s <= fit.upper;
    const decide = ([x, y]) => {
      const s = slab.kernels.position(kernel, rows, beta, x, y);
      if (fit.score === null) return s - fit.lower;
      return fit.score(s, kernel.local ? () => kernel.logMass(rows, beta, x, y) : undefined);
    };
    const found = {
      positions: kernel.onGrid(rows, beta, nodes(question.grid.x), nodes(question.grid.y)),
      rho_lower: fit.lower,
      rho_upper: Number.isFinite(fit.upper) ? fit.upper : null,
      gamma: parameters.kernel === "rbf" ? gamma : null,
      objective: solution.point.objective,
      gap: solution.point.gap,
      relative_gap: solution.relativeGap,
      status: solution.status,
      expected_recall: fit.expectedRecall,
      points: {
        coefficients: group.map((i) => beta[i] / weights[i]),
        positions: group.map((i) => scores[i]),
        left_out: leftOut && group.map((i) => leftOut[i]),
        accepted: group.map((i) => within(scores[i])),
      },
      stars: {
        positions: question.stars.map(([x, y]) => slab.kernels.position(kernel, rows, beta, x, y)),
        decisions: question.stars.map(decide),
      },
      warnings: fit.warnings,
    };
    return { ...found, milliseconds: performance.now() - begun };
  }

  /** The recall that n rows say of planes, by how far inside each plane these lie (slabsvm.fitted.threshold). */
  function expectedRecall(within, weights, n) {
    const depth = (plane) => {
      const gap = Math.min(...plane.filter((one) => one < 0).map((one) => -one));
      const inside = Math.min(...plane.filter((one) => one >= 0));
      return Number.isFinite(gap) && Number.isFinite(inside) ? gap / (gap + inside) : 1;
    };
    const inside = weights.reduce((sum, w, i) => sum + (within.every((plane) => plane[i] >= 0) ? w : 0), 0);
    return Math.max(inside + 1 - within.reduce((sum, plane) => sum + depth(plane), 0), 0) / (n + 1);
  }

  /** Where the planes of a solution are put, the score that they make, and what is said of them. */
  function planesOf({ parameters, rows, weights, kernel, K, dual, solution, leftOut }) {
    const { beta, multipliers, scores } = solution.point, { n } = dual, training = leftOut === null;
    const largest = (values) => values.reduce((a, value) => Math.max(a, Math.abs(value)), 0);
    let diagonal = 0, size = 0;
    for (let i = 0; i < n; i++) diagonal = Math.max(diagonal, K[i * n + i]);
    /* A new row that repeats a learned one scores what the whole model gives it: that counts for the outer plane. */
    const way = side(dual), unseen = training ? scores : leftOut;
    const outer = unseen.map((s, i) => (weights[i] > 1 ? way * Math.max(way * s, way * scores[i]) : s));
    const sized = (of) => ROUNDING_UNITS * Number.EPSILON * of, { offsetsBy, outside } = slab.planes;
    let rho = training ? solution.point.offsets : offsetsBy(dual, leftOut, outer, weights, sized(largest(scores)));
    if (training) size = beta.reduce((sum, b) => sum + Math.abs(b), 0) * diagonal;
    else size = largest(rho) + largest(scores);
    const rounding = sized(size);
    const smoother = slab.warnings.smoother(parameters.kernel);
    const of = { dual, K, beta, rows, weights, kernel, kernelName: parameters.kernel, remedy: smoother };
    const kept = outside(of, unseen, rho, rounding);
    rho = kept.rho;
    const lower = rho[0] - rounding, upper = rho.length > 1 ? rho[1] + rounding : Infinity;
    const total = weights.reduce((a, b) => a + b, 0);
    const share = (is) => weights.reduce((sum, w, i) => sum + (is(i) ? w : 0), 0) / total;
    const held = (i) => multipliers.some((values) => values[i] > 0);
    const bound = 1 - share(held);
    const within = rho.map((plane, p) =>
      (isOuter(dual, p) ? outer : unseen).map((s) => dual.signs[p] * (s - plane) + rounding),
    );
    const expected = training ? bound : expectedRecall(within, weights, total);
    const nominal = 1 - parameters.nu_lower - (rho.length > 1 ? parameters.nu_upper : 0);
    const score =
      rho.length < 2
        ? null
        : slab.twoSided(outer, weights, {
            side: way,
            planes: [lower, upper],
            nus: [parameters.nu_lower, parameters.nu_upper],
            local: kernel.local,
            rounding,
          });

    const remedy = training ? `calibration='auto', ${smoother}` : smoother;
    const spread = training ? Infinity : Math.max(...leftOut) - Math.min(...leftOut);
    const collapsed = slab.warnings.collapsed({ status: solution.status, lower, upper, rounding, spread, remedy });
    const texts = [collapsed];
    if (!collapsed) {
      texts.push(kept.warning);
      const isIn = (i) => accepts(dual, scores[i], rho, rounding);
      if (training) {
        texts.push(slab.warnings.bounded(bound, share((i) => (weights[i] > 1 ? isIn(i) : !held(i))), nominal, remedy));
      } else {
        texts.push(slab.warnings.liftedOut(share(isIn), expected, nominal, smoother));
      }
    }
    if (!training) {
      const once = share((i) => weights[i] === 1);
      const tellsApart = [0, 1].some((column) => new Set(rows.map((row) => row[column])).size === rows.length);
      const taken = tellsApart ? slab.warnings.takenForCopies(once, nominal) : "";
      /* Where most rows repeat others, and new ones will, too, how many differ says nothing. */
      texts.push(taken || (once < MOST ? "" : slab.warnings.tooFew(rows.length, nominal)));
    }
    const warning = texts.filter(Boolean).join(" "), warnings = warning ? [warning] : [];
    if (solution.status === "stalled") {
      warnings.unshift(
        `OneClassSlabSVM stopped at a relative duality gap of ${slab.warnings.general(solution.relativeGap, 2)}: further ` +
          "iterations no longer reduced it. Scale the features, or use a smaller gamma.",
      );
    }
    return { lower, upper, score, expectedRecall: expected, warnings };
  }

  slab.answer = answer;
  slab.QuestionError = QuestionError;
})((globalThis.slabsvm ??= {}));
