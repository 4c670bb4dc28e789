import assert from "node:assert/strict";
import { test } from "node:test";
import { ended, Problem, sentence, type Job } from "../src/app/api";

test("errors become sentences", () => {
  assert.equal(sentence(new Problem("the text is empty: give one", 400)), "The text is empty: give one.");
  assert.equal(sentence("Really?"), "Really?");
  assert.match(sentence(new Error("")), /^Something went wrong/);
});

test("a job has ended when it will not change", () => {
  const states = ["queued", "running", "done", "failed", "cancelled"].filter((state) => ended({ state } as Job));
  assert.deepEqual(states, ["done", "failed", "cancelled"]);
});
