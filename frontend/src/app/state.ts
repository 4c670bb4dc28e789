/** What the page shows, as its address says it: a link shows the same. Texts are never in it. */
export const TABS = ["explain", "history", "data", "folder"] as const;
export type Tab = (typeof TABS)[number];
export const SORTS = ["row", "label", "prediction", "probability", "wrong", "fidelity"] as const;
export type Sort = (typeof SORTS)[number];
export const ORDERS = ["row", "fidelity", "failed"] as const;
export type Order = (typeof ORDERS)[number];
/** Explanations side by side, at most. */
export const MOST_JOBS = 4;

/** Which rows of the data set. */
export interface Rows {
  readonly model: string | null;
  readonly sort: Sort;
  readonly descending: boolean;
  readonly search: string;
  readonly label: string | null;
  readonly wrong: boolean;
  readonly after: string | null;
}

/** Which texts of a corpus are listed, and which one is shown. */
export interface Place {
  readonly order: Order;
  readonly start: number;
  readonly text: number | null;
}

/** Counts of units that are not 1, by unit. */
export type Edits = ReadonlyMap<number, number>;

export interface State {
  readonly tab: Tab;
  readonly jobs: readonly number[];
  readonly edits: readonly Edits[]; // one for each job, the last ones may be missing
  readonly rows: Rows;
  readonly place: Place;
}

export const FIRST_PLACE: Place = { order: "row", start: 0, text: null };
export const FIRST_ROWS: Rows = { model: null, sort: "row", descending: false, search: "", label: null, wrong: false, after: null };
export const START: State = { tab: "explain", jobs: [], edits: [], rows: FIRST_ROWS, place: FIRST_PLACE };

const one = <T extends string>(known: readonly T[], given: string | null, usual: T): T => known.find((name) => name === given) ?? usual;

const natural = (given: string | null): number | null => (/^[1-9]\d{0,14}$/.test(given ?? "") ? Number(given) : null);

/** Reads an address; what it does not understand counts as not said. */
export function readState(query: string): State {
  const given = new URLSearchParams(query);
  const jobs = (given.get("job") ?? "").split(",").filter((id) => /^[1-9]\d{0,15}$/.test(id)).map(Number);
  return {
    tab: one(TABS, given.get("tab"), "explain"),
    jobs: [...new Set(jobs)].slice(0, MOST_JOBS),
    edits: (given.get("edit") ?? "").split("~").map(readEdits),
    rows: {
      model: given.get("model"),
      sort: one(SORTS, given.get("sort"), "row"),
      descending: given.get("order") === "down",
      search: given.get("search") ?? "",
      label: given.get("label"),
      wrong: given.has("wrong"),
      after: given.get("after"),
    },
    place: { order: one(ORDERS, given.get("by"), "row"), start: natural(given.get("from")) ?? 0, text: natural(given.get("text")) },
  };
}

/** The query of an address, with what is not as usual; "?" where everything is. */
export function writeState({ tab, jobs, edits, rows, place }: State): string {
  const query = new URLSearchParams();
  if (tab !== "explain") query.set("tab", tab);
  if (jobs.length > 0) query.set("job", jobs.join(","));
  const edited = edits.map(writeEdits).join("~").replace(/~+$/, "");
  if (jobs.length > 0 && edited) query.set("edit", edited);
  if (tab === "data") {
    if (rows.model !== null) query.set("model", rows.model);
    if (rows.sort !== "row") query.set("sort", rows.sort);
    if (rows.descending) query.set("order", "down");
    if (rows.search) query.set("search", rows.search);
    if (rows.label !== null) query.set("label", rows.label);
    if (rows.wrong) query.set("wrong", "1");
    if (rows.after !== null) query.set("after", rows.after);
  }
  if (tab === "folder") {
    if (place.order !== "row") query.set("by", place.order);
    if (place.start > 0) query.set("from", String(place.start));
    if (place.text !== null) query.set("text", String(place.text));
  }
  return `?${query}`.replaceAll("%2C", ",").replaceAll("%7E", "~");
}

/** "3.0-8.2": unit 3 is removed and unit 8 stands twice. */
function readEdits(given: string): Edits {
  return new Map([...given.matchAll(/(\d{1,6})\.(\d)(?:-|$)/g)].map(([, unit, count]) => [Number(unit), Number(count)] as const));
}
const writeEdits = (edits: Edits): string => [...edits].map(([unit, count]) => `${unit}.${count}`).join("-");

/** The counts that are not 1. */
export const editsOf = (counts: readonly number[]): Edits => new Map([...counts.entries()].filter(([, count]) => count !== 1));

/** What the server is asked for a page of rows. */
export function rowsQuery(rows: Rows, limit: number): URLSearchParams {
  const query = new URLSearchParams({ sort: rows.sort, limit: String(limit) });
  if (rows.descending) query.set("descending", "true");
  if (rows.wrong) query.set("wrong", "true");
  for (const name of ["model", "search", "label", "after"] as const) if (rows[name]) query.set(name, rows[name]);
  return query;
}
