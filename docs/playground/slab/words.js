/* words.js: what an answer means, in words for everyone. */
"use strict";
((slab) => {
  const percent = (share) => `${(100 * share).toFixed(share > 0.995 || share < 0.1 ? 1 : 0)} %`;
  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const short = (value) => String(Number(value.toPrecision(3)));

  /** What stands at an axis. */
  const axis = (name, scale) => (scale === 1 ? name : `${name}, standardised (÷ ${short(scale)})`);

  /** The share of new points that the parameters ask for. */
  const nominal = ({ nu_lower, nu_upper, epsilon }) => 1 - nu_lower - (epsilon === 0 ? 0 : nu_upper);

  /** One sentence for ears: what there is, and what became of it. */
  function summary(state, answer) {
    const verdict = answer.stars.decisions[0] >= 0 ? "accepted" : "rejected";
    const warned = answer.warnings.length ? " There is a warning." : "";
    return (
      `${counted(state.points.length, "point")}. About ${percent(answer.expected_recall)} of new points like these are ` +
      `expected to be accepted. The star is ${verdict}.${warned}`
    );
  }

  /** What became of the star, and why. */
  function verdict({ stars, rho_lower, rho_upper }) {
    const s = stars.positions[0], decision = stars.decisions[0];
    if (decision >= 0) return rho_upper === null ? "Accepted: above the only plane." : "Accepted: between the planes.";
    return s < rho_lower ? "Rejected: below the lower plane." : "Rejected: above the upper plane.";
  }

  /** What is expected, and what was asked for. */
  function recall({ parameters }, answer) {
    const least = parameters.calibration === "training" ? "as few as " : "";
    return `${least}${percent(answer.expected_recall)} of new points (asked: ${percent(nominal(parameters))})`;
  }

  /** The certificate. */
  function certificate(answer) {
    const of = `the objective, ${short(answer.objective)}, is within ${answer.gap.toExponential(0)} of the optimum`;
    return {
      converged: `Solved: ${of} (relative gap ${answer.relative_gap.toExponential(0)}).`,
      degenerate: `Solved, but w is zero: ${of}, and no direction tells the points from the origin.`,
    }[answer.status] ?? `Not solved (${answer.status}): ${of}.`;
  }

  slab.words = { axis, summary, verdict, recall, certificate, counted, percent, short };
})((globalThis.slabsvm ??= {}));
