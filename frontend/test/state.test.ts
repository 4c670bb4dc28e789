import assert from "node:assert/strict";
import { test } from "node:test";
import { editsOf, FIRST_PLACE, FIRST_ROWS, readState, rowsQuery, START, writeState, type State } from "../src/app/state";

test("nothing in the address is the start, and the start is nothing in the address", () => {
  assert.deepEqual(readState(""), { ...START, edits: [new Map()] });
  assert.equal(writeState(START), "?");
});

test("an address shows the same again", () => {
  const state: State = {
    tab: "data", jobs: [12, 7], edits: [new Map([[3, 0], [8, 2]]), new Map([[1, 9]])],
    rows: { model: "mine & yours", sort: "wrong", descending: true, search: 'not "so good" ü*', label: "a=b", wrong: true, after: "AbC_-" }, place: FIRST_PLACE,
  };
  assert.deepEqual(readState(writeState(state)), state);
  assert.match(writeState(state), /job=12,7&edit=3\.0-8\.2~1\.9/);
});

test("the place in a corpus is in the address of the folder only", () => {
  const state: State = { ...START, edits: [new Map()], tab: "folder", place: { order: "fidelity", start: 50, text: 7 } };
  assert.equal(writeState(state), "?tab=folder&by=fidelity&from=50&text=7");
  assert.deepEqual(readState(writeState(state)), state);
  assert.equal(writeState({ ...state, tab: "explain" }), "?");
  assert.deepEqual(readState("?tab=folder&by=x&from=-1&text=0").place, FIRST_PLACE);
});

test("filters of the data set are in the address of the data set only", () => {
  const rows = { ...FIRST_ROWS, search: "dull", wrong: true };
  assert.equal(writeState({ ...START, rows }), "?");
  assert.equal(writeState({ ...START, tab: "data", rows }), "?tab=data&search=dull&wrong=1");
});

test("what an address gets wrong counts as not said", () => {
  const state = readState("?tab=<script>&job=3,x,-1,0,1e9,3,4,5,6,7&edit=a.b-2.x~~4.0&sort=text&order=up");
  assert.equal(state.tab, "explain");
  assert.deepEqual(state.jobs, [3, 4, 5, 6]);
  assert.deepEqual(state.edits, [new Map(), new Map(), new Map([[4, 0]])]);
  assert.equal(state.rows.sort, "row");
  assert.equal(state.rows.descending, false);
});

test("edits are the counts that are not 1", () => {
  assert.deepEqual(editsOf([1, 0, 1, 3]), new Map([[1, 0], [3, 3]]));
});

test("the server is asked for what is chosen", () => {
  assert.equal(String(rowsQuery(FIRST_ROWS, 50)), "sort=row&limit=50");
  const rows = { ...FIRST_ROWS, model: "embedded", sort: "fidelity" as const, descending: true, label: "good", after: "abc" };
  assert.equal(String(rowsQuery(rows, 10)), "sort=fidelity&limit=10&descending=true&model=embedded&label=good&after=abc");
});
