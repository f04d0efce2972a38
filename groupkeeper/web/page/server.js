// Sends requests to the server: failed ones are retried with increasing pauses, and none are sent
// while the page is hidden.

import { token } from "./token.js";

const API = "api/v1/";
const ANSWER_MS = 10_000;
const LONGEST_PAUSE_MS = 30_000;
const UNREAD_MS = 5_000; // an election of leaders is shorter

/** An error response of the server; `message` is its text. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The server did not respond. */
export class Gone extends Error {}

/** GET an object of the API. Raises Refused or Gone. */
export async function get(segments, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const path = address(segments);
  return answerOf(given.length ? `${path}?${new URLSearchParams(given)}` : path);
}

/** POST a change. Raises Refused or Gone. */
export async function post(segments, body) {
  const headers = { "Content-Type": "application/json" };
  return answerOf(address(segments), { method: "POST", headers, body: JSON.stringify(body) });
}

/** Return the address of an object of the API; null if a browser cannot request it. */
export function hrefOf(segments) {
  const isDots = segments.includes(".") || segments.includes("..");
  return isDots ? null : API + segments.map(encodeURIComponent).join("/");
}

function address(segments) {
  const href = hrefOf(segments);
  if (href === null) throw new Refused(404, "A browser cannot request this name: use the command groupkeeper why.");
  return href;
}

async function answerOf(path, { headers = {}, ...options } = {}) {
  let answer;
  let body;
  try {
    const signal = AbortSignal.timeout(ANSWER_MS);
    answer = await fetch(path, { signal, cache: "no-store", headers: { ...headers, ...token.headers }, ...options });
    body = await answer.text();
  } catch (error) {
    link.lost();
    throw new Gone(error.message);
  }
  link.found();
  token.saw(answer.status);
  if (answer.ok) {
    const found = JSON.parse(body);
    link.saw(found.observes ?? null, found.unread ?? null);
    return found;
  }
  let text = body.trim();
  try {
    text = JSON.parse(body).error;
  } catch {
    // not from the API: errors of the port itself are plain text
  }
  throw new Refused(answer.status, text);
}

function pauseMs(failures) {
  return Math.min(LONGEST_PAUSE_MS, 1_000 * 2 ** (failures - 1));
}

// -- availability of the server ------------------------------------------------------------------

/** One loop polls for the return of the server, for all parts of the page. */
class Link extends EventTarget {
  observes = null; // bootstrap servers of the cluster, if this is an observer
  unread = null; // what an observer cannot read, and since when
  lostAt = null;
  tries = 0;
  nextAt = null;
  #timer = null;

  get isLost() {
    return this.lostAt !== null;
  }

  lost() {
    if (this.isLost) return;
    this.lostAt = Date.now();
    this.#plan();
  }

  /** Note whether the server is an observer, of which cluster, and what it cannot read for long. */
  saw(observes, unread) {
    const before = this.unread;
    const isLong = unread !== null && unread.for_ms >= UNREAD_MS;
    this.unread = isLong ? { partitions: unread.partitions, at: before?.at ?? Date.now() - unread.for_ms } : null;
    if (observes === this.observes && this.unread?.partitions === before?.partitions) return;
    this.observes = observes;
    this.dispatchEvent(new Event("change"));
  }

  found() {
    if (!this.isLost) return;
    clearTimeout(this.#timer);
    this.lostAt = this.nextAt = null;
    this.tries = 0;
    this.dispatchEvent(new Event("back"));
  }

  async tryNow() {
    clearTimeout(this.#timer);
    this.nextAt = null;
    this.dispatchEvent(new Event("change"));
    try {
      await fetch("healthz", { signal: AbortSignal.timeout(ANSWER_MS), cache: "no-store", headers: token.headers });
      this.found();
    } catch {
      this.#plan();
    }
  }

  #plan() {
    this.tries += 1;
    const pause = pauseMs(this.tries);
    this.nextAt = Date.now() + pause;
    this.#timer = setTimeout(() => this.tryNow(), pause);
    this.dispatchEvent(new Event("change"));
  }
}

export const link = new Link();

/** Say that an observer answers, and of which cluster; null for a server. */
export function observerText(observes) {
  if (observes === null) return null;
  return `Observes the cluster at ${observes}, read-only. Causes are inferred from what its groups wrote; each says how sure it is.`;
}

/** Tell which partitions an observer cannot read; `time` makes the element for Unix ms. */
export function unreadText({ partitions, at }, time) {
  const what = partitions === 1 ? "1 partition" : `${partitions} partitions`;
  return ["The cluster cannot be read since ", time(at), `: groups of ${what} of __consumer_offsets are shown as they were then.`];
}

// -- polling -------------------------------------------------------------------------------------

/**
 * Run `load` now, every `every()` ms, and after `soon()`, but at most every `least` ms. A failed
 * `load` is retried with increasing pauses.
 */
export class Watch {
  #load;
  #every;
  #least;
  #timer = null;
  #dueAt = Infinity;
  #endedAt = -Infinity;
  #failures = 0;
  #isRunning = false;
  #isWanted = false;
  #isStopped = false;
  #now = () => this.now();

  constructor(load, every, least) {
    this.#load = load;
    this.#every = every;
    this.#least = least;
    document.addEventListener("visibilitychange", this.#now);
    link.addEventListener("back", this.#now);
    this.now();
  }

  stop() {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#now);
    link.removeEventListener("back", this.#now);
  }

  /** Load as soon as `least` permits, because of a change. */
  soon() {
    if (this.#isRunning) this.#isWanted = true;
    else if (!this.#failures) this.#plan(Math.max(0, this.#endedAt + this.#least - performance.now()));
  }

  async now() {
    clearTimeout(this.#timer);
    this.#dueAt = Infinity;
    if (this.#isStopped || this.#isRunning || document.hidden || link.isLost) return;
    this.#isRunning = true;
    this.#isWanted = false;
    try {
      await this.#load();
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      if (!(error instanceof Gone || error instanceof Refused)) console.error(error);
    }
    this.#isRunning = false;
    this.#endedAt = performance.now();
    const usual = this.#isWanted ? this.#least : this.#every();
    this.#plan(this.#failures ? pauseMs(this.#failures) : usual);
  }

  #plan(pause) {
    const dueAt = performance.now() + pause;
    if (this.#isStopped || dueAt > this.#dueAt) return;
    clearTimeout(this.#timer);
    this.#dueAt = dueAt;
    this.#timer = setTimeout(this.#now, pause);
  }
}

/** Yield the data of a stream of server-sent events, but of those that have a type. */
export async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const lines of blocks.map((each) => each.split("\n"))) {
      const data = lines.filter((each) => each.startsWith("data: ")).map((each) => each.slice(6));
      if (data.length > 0 && !lines.some((each) => each.startsWith("event: "))) yield data.join("\n");
    }
  }
}

/** Receives server-sent events of one group, or of all, while the page is visible. EventSource cannot send a token. */
export class Follow {
  #group;
  #take;
  #changed;
  #ending = null; // of the current request
  #timer = null;
  #failures = 0;
  #isStopped = false;
  #check = () => this.#open();
  isOpen = false;

  /** `take` receives each event; `changed` is called when the stream opens or closes. */
  constructor(group, take, changed) {
    this.#group = group;
    this.#take = take;
    this.#changed = changed;
    document.addEventListener("visibilitychange", this.#check);
    link.addEventListener("back", this.#check);
    this.#open();
  }

  stop() {
    this.#isStopped = true;
    this.#close();
    document.removeEventListener("visibilitychange", this.#check);
    link.removeEventListener("back", this.#check);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#ending?.abort();
    this.#ending = null;
    this.isOpen = false;
  }

  #tell(data) {
    try {
      this.#take(JSON.parse(data));
    } catch (error) {
      console.error(error); // the stream goes on
    }
  }

  async #open() {
    this.#close();
    if (this.#isStopped || document.hidden || link.isLost) return;
    const query = this.#group === null ? "" : `?${new URLSearchParams({ group: this.#group })}`;
    const ending = new AbortController();
    this.#ending = ending;
    try {
      const answer = await fetch(`${API}follow${query}`, { signal: ending.signal, cache: "no-store", headers: token.headers });
      token.saw(answer.status);
      if (!answer.ok) throw new Refused(answer.status, "no stream");
      this.isOpen = true;
      this.#failures = 0;
      this.#changed();
      for await (const data of messages(answer.body)) this.#tell(data);
    } catch {
      // refused, ended here, or the connection broke
    }
    if (this.#ending !== ending) return; // closed here, or replaced
    this.#close();
    this.#failures += 1;
    this.#timer = setTimeout(this.#check, pauseMs(this.#failures + 1));
    this.#changed();
  }
}
