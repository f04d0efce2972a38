// Lists the rebalances of a group, newest first; each expands to the text of `groupkeeper why`.

import { h, show } from "./dom.js";
import { count, span, time } from "./format.js";
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

export class Timeline {
  #name;
  #changed;
  #earlier = null; // cursor for rounds before the first one
  #isKnown = false;
  #isStored = true;
  #error = null;
  rounds = []; // oldest first
  place = h("div", {}, "Loading…");

  /** `changed` is called when the rounds have changed. */
  constructor(name, changed) {
    this.#name = name;
    this.#changed = changed;
    this.watch = new Watch(() => this.#load(), () => EVERY_MS, LEAST_MS);
  }

  async #load() {
    try {
      const found = await get(["groups", this.#name, "rounds"], { last: ROUNDS });
      this.#isStored = found.events_enabled;
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
    const first = found.rounds[0];
    const known = first ? this.rounds.findIndex((each) => keyOf(each) === keyOf(first)) : -1;
    if (known < 0) this.#earlier = found.next; // no overlap with the known rounds
    this.rounds = [...this.rounds.slice(0, Math.max(known, 0)), ...found.rounds].slice(-KEPT);
  }

  async #loadEarlier() {
    try {
      const found = await get(["groups", this.#name, "rounds"], { last: ROUNDS, before: this.#earlier });
      this.rounds = [...found.rounds, ...this.rounds];
      this.#earlier = this.rounds.length < KEPT ? found.next : null;
      this.#error = null;
    } catch (problem) {
      this.#error = problem;
    }
    this.#show();
    this.#changed();
  }

  #show() {
    const newest = this.rounds.toReversed();
    show(this.place,
      !this.#isStored && h("p", { class: "problem" },
        "Events are disabled (group.events.enabled=false): only rebalances stored earlier are shown."),
      this.#error && this.#error.status !== 404 && h("p", { class: "problem" }, `The server says: ${this.#error.message}.`),
      this.#isKnown && newest.length === 0 && h("p", {},
        this.#earlier === null ? "No rebalance of this group is stored." : "No rebalance of this group is among the newest events."),
      h("ol", { class: "rounds" }, newest.map(roundOf)),
      this.#earlier !== null && h("button", { type: "button", onclick: () => this.#loadEarlier() }, "Earlier rebalances"));
  }
}

/** Return the identity of a round. */
export function keyOf(round) {
  return `${round.epoch}.${round.round}`;
}

function roundOf(round) {
  const took = round.duration_ms === null ? "" : span(round.duration_ms);
  const still = round.standstill_ms ? `, stood still for up to ${span(round.standstill_ms)}` : "";
  const moved = round.moved === null ? null : `${count(round.moved)} of ${count(round.partitions ?? 0)} partitions moved`;
  const code = round.cause?.code;
  return h("li", { "data-key": keyOf(round), class: round.outcome },
    h("details", {},
      h("summary", {},
        h("span", { class: "when" }, round.started_at_ms === null ? "before the stored events" : time(round.started_at_ms),
          " ", h("span", { class: "took" }, took)),
        h("span", { class: "what" }, round.cause_text),
        h("span", { class: "quiet" }, [`to generation ${round.generation}`, OUTCOMES[round.outcome] ?? round.outcome, code].filter(Boolean).join(", "))),
      h("p", { class: "paragraph" }, round.text),
      h("p", { class: "quiet" }, [round.joined.length ? `${count(round.joined.length)} joined` : null,
        round.missing.length ? `${count(round.missing.length)} did not` : null, moved].filter(Boolean).join(", "), still)));
}
