/* table.js: the columns of numbers of a CSV text, and points of two of them. */
"use strict";
((slab) => {
  const MOST_LETTERS = 2e7;

  /** The cells of a CSV text, with quotes; the separator is the one of , ; and tab that the first line has most of. */
  function cells(text) {
    const first = text.slice(0, text.search(/\n|$/));
    const count = (letter) => first.split(letter).length;
    const separator = [",", ";", "\t"].reduce((a, b) => (count(b) > count(a) ? b : a));
    const rows = [[""]];
    let quoted = false;
    for (let i = 0; i < text.length; i++) {
      const letter = text[i], row = rows[rows.length - 1];
      if (quoted) {
        if (letter !== '"') row[row.length - 1] += letter;
        else if (text[i + 1] === '"') row[row.length - 1] += text[++i];
        else quoted = false;
      } else if (letter === '"' && row[row.length - 1] === "") quoted = true;
      else if (letter === separator) row.push("");
      else if (letter === "\n") rows.push([""]);
      else row[row.length - 1] += letter;
    }
    return rows.filter((row) => row.length > 1 || row[0].trim() !== "");
  }

  const isNumber = (cell) => cell.trim() !== "" && Number.isFinite(Number(cell));
  const isGap = (cell) => ["", "na", "nan", "null", "none"].includes(cell.trim().toLowerCase());

  /**
   * @param {string} text
   * @param {string} name of the file
   * @returns {{name: string, rows: number, columns: {name: string, values: (number | null)[]}[]}}
   */
  function parse(text, name) {
    if (text.length > MOST_LETTERS) throw new slab.QuestionError(`${name} is too large for this page: take some of its rows.`);
    const all = cells(text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n"));
    const hasHeader = all.length > 1 && all[0].every((cell) => !isNumber(cell));
    const body = hasHeader ? all.slice(1) : all, width = Math.max(0, ...all.slice(0, 100).map((row) => row.length));
    const columns = [];
    for (let j = 0; j < width; j++) {
      const column = body.map((row) => row[j] ?? "");
      if (!column.some(isNumber) || !column.every((cell) => isNumber(cell) || isGap(cell))) continue;
      const values = column.map((cell) => (isGap(cell) ? null : Number(cell)));
      columns.push({ name: (hasHeader && all[0][j]?.trim()) || `column ${j + 1}`, values });
    }
    if (columns.length < 2) {
      const found = columns.length ? "one column holds" : "no column holds";
      throw new slab.QuestionError(`${name}: two columns of numbers are needed, and ${found} numbers alone.`);
    }
    return { name, rows: body.length, columns };
  }

  /**
   * The points of two columns: rows with both values, evenly chosen where they are too many.
   * @returns {{points: number[][], said: string}}
   */
  function points(table, first, second) {
    const [x, y] = [table.columns[first], table.columns[second]], most = slab.state.MOST_POINTS;
    const whole = x.values.map((value, i) => [value, y.values[i]]).filter((row) => row[0] !== null && row[1] !== null);
    if (whole.length < 2) {
      throw new slab.QuestionError(`Fewer than two rows have both ${x.name} and ${y.name}: choose other columns.`);
    }
    if (!whole.every(slab.state.isPlace)) {
      throw new slab.QuestionError(`${x.name} or ${y.name} has a number beyond ${slab.state.LARGEST}: choose other columns.`);
    }
    const step = Math.max(whole.length / most, 1);
    const some = Array.from({ length: Math.min(whole.length, most) }, (_, i) => whole[Math.floor(i * step)]);
    const gaps = x.values.length - whole.length;
    const chosen = table.rows > some.length + gaps ? `, ${some.length} of its ${table.rows} rows` : `, ${some.length} rows`;
    return { points: some, said: `${table.name}: ${x.name} and ${y.name}${chosen}${gaps ? `; ${gaps} left out for gaps` : ""}.` };
  }

  slab.table = { parse, points };
})((globalThis.slabsvm ??= {}));
