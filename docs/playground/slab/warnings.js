/* warnings.js: what a fit says where its planes are not what was asked for (slabsvm.detectors: infinity, recall). */
"use strict";
((slab) => {
  const LOST_RECALL = 0.1;
  const LOST_REJECTIONS = 0.5;
  const TELLING = 3;
  const NO_WIDTH = 1e-6;
  const SAME_LENGTH = 1e-6;

  const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

  /** A number with so many digits, as Python's format "g" has it. */
  function general(value, digits) {
    if (value === 0 || !Number.isFinite(value)) return String(value);
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    if (Number(exponent) >= -4 && Number(exponent) < digits) return String(Number(value.toPrecision(digits)));
    const sign = exponent[0] === "-" ? "-" : "+";
    return `${Number(mantissa)}e${sign}${exponent.slice(1).padStart(2, "0")}`;
  }

  const smoother = (kernel) => (kernel === "rbf" ? "a smaller gamma" : "a kernel that falls off more slowly");

  /** What is wrong where w is zero or the slab has no width. */
  function collapsed({ status, lower, upper, rounding, spread, remedy }) {
    if (status === "degenerate") {
      return (
        "The fitted w is zero: the optimal w is zero to within rounding: the two clouds that the slab separates " +
        "coincide in feature space, so that the scores carry no information; move epsilon away from 1, or use a " +
        "nonlinear kernel."
      );
    }
    const width = upper - lower, largest = Number.isFinite(width) ? Math.max(Math.abs(lower), Math.abs(upper)) : 0;
    if (width > NO_WIDTH * Math.min(largest, spread) + 4 * rounding) return "";
    return (
      `The slab has no width: its planes are at ${general(lower, 6)} and ${general(upper, 6)}. Either all ` +
      "samples are (nearly) the same point of feature space, or the kernel matrix is so close to the identity that " +
      `the scores of different samples do not differ by more than rounding. Use ${remedy}, and check the features ` +
      "for constants."
    );
  }

  /** Where training planes will reject too many. */
  function bounded(least, repeating, nominal, remedy) {
    if (least >= nominal - LOST_RECALL) return "";
    const repeats =
      repeating > least + LOST_RECALL
        ? ` (${percent(repeating)} if they repeat training rows as often as these repeat each other)`
        : "";
    return (
      `${percent(1 - least)} of the training samples are support vectors. With offsets='training' expect as few as ` +
      `${percent(least)} of new positives to be accepted${repeats}, where nu asks for ${percent(nominal)}. Use ` +
      `${remedy}, or more samples.`
    );
  }

  /** Where a slab rejects the rows that it learned. */
  function liftedOut(learned, unseen, nominal, remedy) {
    if (learned >= nominal - LOST_RECALL) return "";
    return (
      `The model accepts ${percent(learned)} of the training rows, and of rows that repeat them. Learning a row ` +
      "raises its score, here beyond the upper plane, which is set for unseen rows. Expect " +
      `${percent(unseen)} of unseen rows to be accepted. Use ${remedy}, or epsilon=0, which has no upper plane. ` +
      "loo_decisions_ says which training rows are outliers."
    );
  }

  /** The recall to expect of a threshold by m samples that accepts a share of them, and its standard error. */
  function foretold(share, m) {
    const expected = share * (1 - 1 / (m + 1));
    return [expected, Math.sqrt((expected * (1 - expected)) / (m + 2))];
  }

  /** Where the recall of so many samples, of which this share do not repeat, may be LOST_RECALL too small. */
  function tooFew(m, once, nominal) {
    const lost = (count) => foretold(nominal, count)[0] - foretold(nominal, count)[1] < nominal - LOST_RECALL;
    if (once < 0.5 || !lost(m)) return "";
    let least = m;
    while (lost(least)) least += 1;
    const [expected, error] = foretold(nominal, m);
    return (
      `${m} distinct samples are few to set a threshold: ${percent(nominal)} of new positives are to be accepted, ` +
      `but expect ${percent(expected)}, with a standard error of ${percent(error)}. Give ${least} or more.`
    );
  }

  /** Where a threshold is kept above the limit, which this share of samples scores when alone. */
  const unreached = (alone, expected, nominal, remedy) =>
    `${percent(alone)} of the training samples are out of the kernel's reach of all others: their leave-one-out ` +
    "score is that of a row infinitely far away. Such rows are never accepted. Expect " +
    `${percent(expected)} of new positives to be accepted, where nu asks for ${percent(nominal)}. Use ` +
    `${remedy}, or scale the features, for example with StandardScaler.`;

  /** Where the row whose kernel values are all 0 is accepted. */
  const unlikeAll = (alone) =>
    "A row whose kernel values with all training samples are 0 is accepted. If the kernel falls off with distance, " +
    `every row far away is such a row. ${percent(alone)} of the training samples score no more than it by ` +
    "leave-one-out. Use a kernel that falls off more slowly, more samples, or kernel='rbf', which keeps such rows outside.";

  /** Where rows larger than all samples in every feature are accepted. */
  const beyondAll = (far, kernel) =>
    "Rows that exceed the training rows in every feature are accepted, however far away: in the limit they score " +
    `${Number.isFinite(far) ? general(far, 4) : far > 0 ? "inf" : "-inf"} (kernel='${kernel}'). Use kernel='rbf' or ` +
    "SVDD, which reject rows far away. Or scale each row to the same sum, as in histograms.";

  /** Whether rows of these squared lengths are equally long. */
  const ofOneLength = (lengths) => {
    const largest = lengths.reduce((a, b) => Math.max(a, b)), least = lengths.reduce((a, b) => Math.min(a, b));
    return largest - least <= SAME_LENGTH * largest;
  };

  /**
   * Where leave-one-out planes accept far too few or too many rows that repeat.
   * @param {number[]} weights of the distinct rows: how often each was given
   * @param {boolean[]} accepted which of them the model accepts, as it scores them
   * @param {boolean[]} leftOut which it accepts by their leave-one-out scores
   */
  function misjudgedRepeats(weights, nominal, accepted, leftOut) {
    const sum = (of) => weights.reduce((total, w, i) => total + w * of(i), 0), all = sum(() => 1);
    const repeated = sum((i) => Number(weights[i] > 1));
    if (repeated === 0) return "";
    const share = repeated / all;
    if (share * nominal <= LOST_RECALL && 1 - share > LOST_REJECTIONS) return "";
    const recall = sum((i) => Number(weights[i] > 1 && accepted[i])) / repeated;
    const found =
      `${percent(share)} of the training samples repeat others. The model accepts ${percent(recall)} of these, ` +
      `where its parameters ask for ${percent(nominal)}: `;
    if (share * (nominal - recall) > LOST_RECALL) {
      return (
        `${found}leave-one-out scores set thresholds for unseen rows. Use offsets='training' if new rows will repeat ` +
        "training rows in the same way (few discrete values). If rows were only given more than once, give each once."
      );
    }
    const expected = share * recall + sum((i) => Number(weights[i] === 1 && leftOut[i])) / all;
    if (1 - expected < LOST_REJECTIONS * (1 - nominal) && all * (1 - nominal) >= TELLING) {
      return (
        `${found}they score higher than rows that were left out, or lie on the threshold, which counts as inside. If ` +
        `new rows will repeat training rows in the same way, expect ${percent(expected, 1)} of new positives to be ` +
        "accepted, and outliers that repeat these too. Set the threshold from rows held out at random: " +
        "ConformalDetector(FrozenEstimator(model)). Rows with equal scores are accepted or rejected together, there " +
        "too. With few distinct values, ask for more to be rejected."
      );
    }
    return "";
  }

  slab.warnings = {
    LOST_RECALL, smoother, collapsed, bounded, liftedOut, unreached, unlikeAll, beyondAll, ofOneLength,
    misjudgedRepeats, tooFew, general, percent,
  };
})((globalThis.slabsvm ??= {}));
