/* warnings.js: what a fit says where its planes are not what was asked for (slabsvm.fitted: diagnosis, warnings). */
"use strict";
((slab) => {
  const LOST_RECALL = 0.1;
  const NO_WIDTH = 1e-6;
  const SAME_LENGTH = 1e-6;

  const percent = (share) => `${(100 * share).toFixed(0)}%`;

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
      `${percent(1 - least)} of the training samples are support vectors. With calibration='training' expect as few as ` +
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
      "calibration_decisions_ says which training rows are outliers."
    );
  }

  /** Where the recall by n distinct samples may be LOST_RECALL too small. */
  function tooFew(n, nominal) {
    const least = (count) => {
      const expected = (nominal * count) / (count + 1);
      return [expected, Math.sqrt((expected * (1 - expected)) / (count + 2))];
    };
    const [expected, error] = least(n);
    let enough = n;
    for (; ; enough++) {
      const [found, off] = least(enough);
      if (found - off >= nominal - LOST_RECALL) break;
    }
    if (enough === n) return "";
    return (
      `${n} distinct samples are few to set a threshold: ${percent(nominal)} of new positives are to be accepted, ` +
      `but expect ${percent(expected)}, with a standard error of ${percent(error)}. Give ${enough} or more.`
    );
  }

  /** Where rows that repeat lose new rows that repeat none; once is the share of rows that repeat none. */
  function takenForCopies(once, nominal) {
    const least = once > 0 ? Math.max(1 - (1 - nominal) / once, 0) : 0;
    if (least >= nominal - LOST_RECALL) return "";
    return (
      `${percent(1 - once)} of the samples repeat others, as given or by whole-number weights. The threshold counts on ` +
      "as many repeats among new positives. Yet one feature differs between all distinct samples, so new positives " +
      `may repeat none. Of such positives as few as ${percent(least)} may be accepted, where ${percent(nominal)} are ` +
      "asked for. If rows were only given more than once, give each once. If weights say how much samples matter, " +
      `set the threshold from held-out rows: ConformalDetector(model, alpha=${general(1 - nominal, 3)}).`
    );
  }

  /** Where a threshold is kept above the limit, which this share of samples scores when alone. */
  const unreached = (alone, expected, nominal, remedy) =>
    `${percent(alone)} of the training samples are out of the kernel's reach of all others: where they are not ` +
    "learned they score like a row infinitely far away. Such rows are never accepted. Expect " +
    `${percent(expected)} of new positives to be accepted, where nu asks for ${percent(nominal)}. Use ` +
    `${remedy}, or scale the features, for example with StandardScaler.`;

  /** Where the row whose kernel values are all 0 is accepted. */
  const unlikeAll = (alone) =>
    "A row whose kernel values with all training samples are 0 is accepted. If the kernel falls off with distance, " +
    `every row far away is such a row. ${percent(alone)} of the training samples score no more than it where ` +
    "they are not learned. Use a kernel that falls off more slowly, more samples, or kernel='rbf', which keeps such rows outside.";

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

  slab.warnings = {
    smoother, collapsed, bounded, liftedOut, unreached, unlikeAll, beyondAll, ofOneLength, takenForCopies, tooFew, general,
  };
})((globalThis.slabsvm ??= {}));
