/** Following a job until it has ended, over lost connections. */
import { api, ended, Problem, sentence, type Job } from "./api";

const PAUSE = 2000; // milliseconds before another try

export interface Follower {
  heard(job: Job): void;
  /** The job cannot be followed: it does not exist, or this visitor may not see it. */
  failed(message: string): void;
  /** The connection is gone, and is tried again. */
  lost(): void;
}

/** Tells of a job as it is now and at each of its changes; returns how to stop. */
export function follow(id: number, follower: Follower): () => void {
  let events: EventSource | null = null;
  let timer = 0;
  let stopped = false;

  const again = () => {
    follower.lost();
    timer = window.setTimeout(look, PAUSE);
  };
  const listen = () => {
    events = api.events(id);
    events.addEventListener("job", (event) => {
      const job: Job = JSON.parse((event as MessageEvent<string>).data);
      if (ended(job)) events!.close();
      follower.heard(job);
    });
    events.addEventListener("error", () => {
      if (stopped) return;
      if (events!.readyState === EventSource.CLOSED) again();
      else follower.lost(); // the browser tries again by itself
    });
  };
  const look = async () => {
    try {
      const job = await api.job(id);
      if (stopped) return;
      follower.heard(job);
      if (!ended(job)) listen();
    } catch (error) {
      if (stopped) return;
      const status = error instanceof Problem ? error.status : -1;
      if (status === 0 || status >= 500) again();
      else follower.failed(sentence(error));
    }
  };
  void look();
  return () => {
    stopped = true;
    events?.close();
    window.clearTimeout(timer);
  };
}
