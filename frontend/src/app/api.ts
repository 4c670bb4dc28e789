/** Asking the server. All addresses are relative, so that the page works below any path. */
import type { StoredText } from "./stored";

export type JobState = "queued" | "running" | "done" | "failed" | "cancelled";

export interface ModelInfo {
  readonly name: string;
  readonly state: "loading" | "ready" | "failed";
  readonly message: string | null;
  readonly labels: readonly string[];
  readonly limit: number | null;
  readonly queued: number;
  readonly running: number;
}

export interface MethodInfo {
  readonly name: string;
  readonly description: string;
}

/** What a person asks for. */
export interface Question {
  readonly model: string;
  readonly text: string;
  readonly text_pair: string | null;
  readonly method: string;
  readonly granularity: string;
  readonly target: string | null;
  readonly removal: string;
  readonly budget: number | null;
  readonly seed: number;
}

export interface Job extends Question {
  readonly id: number;
  readonly state: JobState;
  readonly created: number;
  readonly finished: number | null;
  readonly ahead: number | null;
  readonly calls: number;
  readonly expected: number;
  readonly round: number;
  readonly summary: string | null;
  readonly error: string | null;
  readonly key: string | null;
  readonly prediction: number | null;
  readonly predicted: string | null;
  readonly probability: number | null;
  readonly fingerprint: string | null;
  readonly cached: boolean;
}

export interface Answers {
  readonly answers: readonly { readonly full: readonly number[]; readonly label: string | null }[];
  /** How removed units were kept from the model; where a server says so, it also reads edited texts as new ones. */
  readonly removal?: string;
}

export interface DataInfo {
  readonly name: string | null;
  readonly rows: number;
  readonly imported: boolean;
  readonly labels: readonly string[];
  readonly predicted: Readonly<Record<string, number>>;
  readonly message: string | null;
}

export interface DataRow {
  readonly row: number;
  readonly text: string;
  readonly label: string | null;
  readonly prediction: string | null;
  readonly probability: number | null;
  readonly wrong: boolean | null;
  readonly fidelity: number | null;
  readonly key: string | null;
  readonly empty: boolean;
  readonly reason: string | null;
}

export interface DataRows {
  readonly rows: readonly DataRow[];
  readonly next: string | null;
  readonly total: number | null;
}

export interface FolderInfo {
  readonly kind: "corpus" | "audit" | null;
  readonly name: string | null;
  readonly model: string | null;
  readonly texts: number;
  readonly numbers: Readonly<Record<string, number | null>>;
  readonly files: readonly string[];
}

export interface ListedText {
  readonly number: number;
  readonly id: string | null;
  readonly status: string;
  readonly problem: string | null;
  readonly text: string;
  readonly target: string | null;
  readonly predicted: string | null;
  readonly prediction: number | null;
  readonly fidelity: number | null;
}

/** What the server refuses, in a line for a person. */
export class Problem extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

export const ended = ({ state }: Job): boolean => state === "done" || state === "failed" || state === "cancelled";

/** An error as a sentence. */
export function sentence(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const clean = message.trim() || "something went wrong in the page itself";
  return clean[0]!.toUpperCase() + clean.slice(1) + (/[.!?]$/.test(clean) ? "" : ".");
}

async function send(address: string, options: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Problem("the server cannot be reached: is slalom serve still running?", 0);
  }
  if (!response.ok) throw new Problem(await reason(response), response.status);
  return response;
}

async function reason(response: Response): Promise<string> {
  try {
    const { error } = await response.json();
    if (typeof error === "string") return error;
  } catch {
    // A proxy's own page: there is no line of the server in it.
  }
  return `the server answered with status ${response.status}: try again in a moment`;
}

async function get<T>(address: string): Promise<T> {
  return (await send(address)).json();
}

async function post<T>(address: string, body: unknown): Promise<T> {
  return (await send(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();
}

/** The addresses of the server. */
export const api = {
  models: async () => (await get<{ models: ModelInfo[] }>("api/models")).models,
  methods: async () => (await get<{ methods: MethodInfo[] }>("api/methods")).methods,
  example: async () => (await get<{ text: string }>("api/example")).text,
  ask: (question: Question) => post<Job>("api/jobs", question),
  job: (id: number) => get<Job>(`api/jobs/${id}`),
  jobs: async (limit: number, before: number | null) =>
    (await get<{ jobs: Job[] }>(`api/jobs?limit=${limit}${before === null ? "" : `&before=${before}`}`)).jobs,
  cancel: async (id: number): Promise<Job> => (await send(`api/jobs/${id}`, { method: "DELETE" })).json(),
  events: (id: number) => new EventSource(`api/jobs/${id}/events`),
  view: async (id: number) => (await send(`api/jobs/${id}/view`)).text(),
  predict: (job: Job, removal: string, counts: readonly number[], asNewText: boolean) => {
    const { model, fingerprint, text, text_pair, granularity } = job;
    const edited = { model, fingerprint, text, text_pair, granularity, removal, counts: [counts] };
    return post<Answers>("api/predict", asNewText ? { ...edited, as_new_text: true } : edited);
  },
  snippet: async (key: string) => (await get<{ python: string }>(`api/explanations/${key}/snippet`)).python,
  file: async (address: string) => (await send(address)).blob(),
  data: () => get<DataInfo>("api/data"),
  rows: (query: URLSearchParams) => get<DataRows>(`api/data/rows?${query}`),
  folder: () => get<FolderInfo>("api/folder"),
  listed: (order: string, start: number, limit: number) =>
    get<{ texts: readonly ListedText[]; total: number }>(`api/folder/texts?order=${order}&start=${start}&limit=${limit}`),
  stored: (number: number) => get<StoredText>(`api/folder/texts/${number}`),
  row: (row: number) => get<{ text: string; label: string | null }>(`api/data/rows/${row}`),
};
