// Lists the rebalances of a group and the events between them, newest first, in the sentences of
// `groupkeeper why`. A rebalance expands to its paragraph, a row of repeated events to the last ones.

import { h, show } from "./dom.js";
import { count, moment, shortVersions, span, time } from "./format.js";
import { Refused, Watch, get } from "./server.js";

const ROUNDS = 12; // number of rounds per request
const KEPT = 300;
const EVERY_MS = 60_000;
const LEAST_MS = 2_000;
const OUTCOMES = {
  completed: "✓ completed",
  emptied: "○ no member left",
  superseded: "↷ superseded by the next",
  lost: "✕ lost with the coordinator",
  under_way: "◐ under way",
};
const UNREADABLE = "unreadable"; // key of events that the server cannot decode

export class Timeline {
  #name;
  #changed;
  #entries = []; // oldest first
  #earlier = null; // cursor for entries before the first one
  #unknown = {};
  #isKnown = false;
  #isStored = true;
  #error = null;
  place = h("div", {}, "Loading…");

  /** `changed` is called when the entries have changed. */
  constructor(name, changed) {
    this.#name = name;
    this.#changed = changed;
    this.watch = new Watch(() => this.#load(), () => EVERY_MS, LEAST_MS);
  }

  /** The rebalances, oldest first. */
  get rounds() {
    return this.#entries.filter((each) => each.kind === "round");
  }

  async #load() {
    try {
      const found = await get(["groups", this.#name, "timeline"], { last: ROUNDS });
      this.#isStored = found.events_enabled;
      this.#unknown = found.unknown;
      this.#merge(found);
      this.#error = null;
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      this.#error = problem;
    }
    this.#isKnown = true;
    this.#show();
    this.#changed();
    if (this.#error && this.#error.status !== 404) throw this.#error;
  }

  #merge(found) {
    const first = found.entries[0];
    const known = first ? this.#entries.findIndex((each) => keyOf(each) === keyOf(first)) : -1;
    if (known < 0) this.#earlier = found.next; // no overlap with the known entries
    this.#entries = [...this.#entries.slice(0, Math.max(known, 0)), ...found.entries].slice(-KEPT);
  }

  async #loadEarlier() {
    try {
      const found = await get(["groups", this.#name, "timeline"], { last: ROUNDS, before: this.#earlier });
      this.#entries = [...found.entries, ...this.#entries];
      this.#earlier = this.#entries.length < KEPT ? found.next : null;
      this.#error = null;
    } catch (problem) {
      this.#error = problem;
    }
    this.#show();
    this.#changed();
  }

  #show() {
    const newest = this.#entries.toReversed();
    show(this.place,
      !this.#isStored && h("p", { class: "problem" },
        "Events are disabled (group.events.enabled=false): only those stored earlier are shown."),
      this.#error && this.#error.status !== 404 && h("p", { class: "problem" }, `The server says: ${this.#error.message}.`),
      unknownText(this.#unknown),
      this.#isKnown && this.rounds.length === 0 && h("p", {},
        this.#earlier === null ? "No rebalance of this group is stored." : "No rebalance of this group is among the newest events."),
      h("ol", { class: "rounds" }, newest.map(rowOf)),
      this.#earlier !== null && h("button", { type: "button", onclick: () => this.#loadEarlier() }, "Earlier ones"));
  }
}

/** Return the identity of an entry; a row of events keeps that of its first one as it grows. */
export function keyOf(entry) {
  return entry.kind === "round" ? `${entry.epoch}.${entry.round}` : `e ${entry.epoch}.${entry.seq}`;
}

/** Make the row of an entry of the API's timeline. */
export function rowOf(entry) {
  return entry.kind === "round" ? roundOf(entry) : eventsOf(entry);
}

function unknownText(unknown) {
  const rows = Object.entries(unknown).map(([name, times]) =>
    (name === UNREADABLE ? `${count(times)} cannot be read` : `${count(times)} × ${name}`));
  return rows.length > 0 && h("p", { class: "problem" },
    `Some of the events, or fields of them, are not known to this version of the server: ${rows.join(", ")}.`);
}

/** Return when a round began; of an inferred one only its end is known. */
function whenOf(round) {
  if (round.source && round.started_at_ms === null && round.ended_at_ms !== null) return time(round.ended_at_ms);
  return round.started_at_ms === null ? "before the stored events" : time(round.started_at_ms);
}

function roundOf(round) {
  const took = round.duration_ms === null ? "" : span(round.duration_ms);
  const still = round.standstill_ms ? `, stood still for up to ${span(round.standstill_ms)}` : "";
  const moved = round.moved === null ? null : `${count(round.moved)} of ${count(round.partitions ?? 0)} partitions moved`;
  const code = round.cause?.code;
  return h("li", { "data-key": keyOf(round), class: round.outcome },
    h("details", {},
      h("summary", {},
        h("span", { class: "when" }, whenOf(round),
          " ", h("span", { class: "took" }, took)),
        h("span", { class: "what" }, shortVersions(round.cause_text)),
        h("span", { class: "quiet" }, [`to ${round.group_type ? "epoch" : "generation"} ${round.generation}`, OUTCOMES[round.outcome] ?? round.outcome, code].filter(Boolean).join(", "))),
      h("p", { class: "paragraph" }, round.text),
      h("p", { class: "quiet" }, [round.joined.length ? `${count(round.joined.length)} joined` : null,
        round.missing.length ? `${count(round.missing.length)} did not` : null, moved].filter(Boolean).join(", "), still)));
}

/** Make a row of events of one type between two rebalances; more than one can be opened. */
function eventsOf(row) {
  const isOne = row.count === 1;
  const isMoment = isOne || moment(row.first_ms) === moment(row.last_ms);
  const when = isMoment ? time(row.last_ms) : [time(row.first_ms, ""), " to ", time(row.last_ms)];
  const head = [
    h("span", { class: "when" }, when, " ", !isOne && h("span", { class: "took" }, `${count(row.count)} ×`)),
    h("span", { class: "what" }, !isOne && row.text === row.lines[0].text && h("span", { class: "quiet" }, "Last: "), shortVersions(row.text)),
    h("span", { class: "quiet" }, row.type),
  ];
  const shown = row.lines.length;
  return h("li", { "data-key": keyOf(row), class: `events ${row.type}` }, isOne ? h("div", { class: "single" }, head) : h("details", {},
    h("summary", {}, head),
    h("ol", { class: "plain lines" }, row.lines.map((each) => h("li", {}, time(each.at_ms, ""), " ", each.text))),
    shown < row.count && h("p", { class: "quiet" }, `The last ${count(shown)} of ${count(row.count)}.`)));
}
