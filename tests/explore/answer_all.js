/* answer_all.js: answer the questions of a file by the page's own solver, for tests; prints JSON.

   node answer_all.js FOLDER QUESTIONS SCRIPT...   with the scripts of FOLDER that a page loads, in order */
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, questions, ...scripts] = process.argv.slice(2);
for (const name of scripts) vm.runInThisContext(fs.readFileSync(path.join(folder, name), "utf8"), name);
const answers = JSON.parse(fs.readFileSync(questions, "utf8")).map(([question, tol]) => {
  try {
    const answer = globalThis.slabsvm.answer(question, undefined, tol);
    return { ...answer, positions: Array.from(answer.positions) };
  } catch (error) {
    if (!(error instanceof globalThis.slabsvm.QuestionError)) throw error;
    return { error: error.message };
  }
});
process.stdout.write(JSON.stringify(answers));
