import assert from "node:assert/strict";
import { test } from "node:test";
import type { Explanation } from "../src/data";
import { counterpart } from "../src/links";

/** As much of an explanation as linking looks at: the pieces are its units. */
function explained(...pieces: string[]): Explanation {
  let place = 0;
  const spans = pieces.map((piece) => [0, place, (place += piece.length)]);
  return { units: pieces, spans, parts: [pieces.map((piece, unit) => [piece, [unit]])] } as unknown as Explanation;
}

test("in the same text, units at the same characters belong together", () => {
  const words = explained("a ", "wonderful ", "film");
  const tokens = explained("a ", "wonder", "ful ", "film");
  assert.equal(counterpart(words, 1, tokens), 1);
  assert.equal(counterpart(tokens, 2, words), 1);
  assert.equal(counterpart(tokens, 3, words), 2);
});

test("in another text, the same word does", () => {
  const one = explained("Dull ", "jokes, ", "again ", "!");
  const other = explained("the ", "jokes ", "are ", "(dull) ", "?");
  assert.equal(counterpart(one, 0, other), 3);
  assert.equal(counterpart(one, 1, other), 1);
  assert.equal(counterpart(one, 2, other), null);
  assert.equal(counterpart(one, 3, other), null); // a sign alone is no word
});
