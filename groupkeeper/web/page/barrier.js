// The join barrier: joined and missing members, and the next timer, with a countdown between updates.

import { h, show } from "./dom.js";
import { count, left, nameOf, shortId, span, whereOf } from "./format.js";
import { lanes, paint } from "./lanes.js";

const NAMES_MOST = 50;
const TIMERS = {
  join: () => "the join phase ends; dynamic members that have not rejoined are removed",
  initial_delay: () => "the wait for more members of the empty group ends",
  sync: () => "the sync phase ends; members that have not sent SyncGroup are removed",
  session: (who) => `the session of ${who} expires; it is removed unless it sends a request`,
  new_member: (who) => `the time for the new member ${who} to rejoin ends`,
  window: () => "newcomers without partitions get some, in a rebalance",
  seats: () => "the places of lost members are given up, and the group rebalances",
  pending_member: (who) => `the member id ${who} is dropped unless its client joins`,
};

export class Barrier {
  #group = null;
  #tookAt = 0;
  place = h("div", { class: "barrier" }, "Loading…");

  /** `live` of the API's group; null if unknown. */
  take(group) {
    this.#group = group;
    this.#tookAt = performance.now();
  }

  show() {
    const live = this.#group?.live;
    if (!live) {
      if (this.#tookAt) show(this.place, h("p", {}, "Not known."));
      return;
    }
    const passed = performance.now() - this.#tookAt;
    this.place.classList.toggle("busy", live.rebalance !== null);
    if (live.rebalance === null) show(this.place, quiet(live, this.#group.lag, passed));
    else if (live.seen) show(this.place, seenPhase(live, passed));
    else show(this.place, busy(live, this.#group.last_cause, passed));
  }
}

/** Tell about a group that does not rebalance. One without members may be down: what is left to read is told. */
export function quiet(live, lag, passed) {
  const what = live.members.length ? "No rebalance is in progress." : `The group has no members${leftText(lag)}.`;
  return h("p", {}, what, live.next_timer && ` Next: ${timerText(live.next_timer, live, passed)}.`);
}

function leftText(lag) {
  if (!lag?.records) return "";
  const since = lag.seconds === null ? "" : `, the oldest written ${span(lag.seconds * 1_000)} ago`;
  return `: ${count(lag.records, "record")} ${lag.records === 1 ? "is" : "are"} left to read${since}`;
}

/** Tell about a rebalance of an observed group: an observer does not know who has rejoined. */
export function seenPhase(live, passed) {
  const isJoin = live.rebalance.phase === "join";
  const { came, gone } = live.seen;
  return [
    h("p", {}, h("strong", {}, isJoin ? "Join phase" : "Sync phase"),
      `: first seen ${span(live.rebalance.since_ms + passed)} ago, by asking the coordinator. Who has rejoined is not known.`),
    came.length > 0 && h("p", {}, `New: ${came.map(shortId).join(", ")}.`),
    gone.length > 0 && h("p", {}, `Gone: ${gone.map((id) => nameIn(live, id)).join(", ")}.`),
  ];
}

function busy(live, cause, passed) {
  const isEpoch = live.rebalance.phase === "reconcile"; // of a consumer group (KIP-848)
  const isJoin = isEpoch || live.rebalance.phase === "join";
  const [inside, missing] = sides(live, isJoin);
  const known = live.members.length;
  const timer = live.phase_timer ?? live.next_timer;
  const request = isEpoch ? "Epoch" : isJoin ? "JoinGroup" : "SyncGroup";
  const did = isEpoch ? `reached epoch ${live.generation} with their partitions` : `sent ${request}`;
  return [
    h("p", {}, h("strong", {}, isEpoch ? "Reconciling" : isJoin ? "Join phase" : "Sync phase"),
      `: the rebalance is ${span(live.rebalance.since_ms + passed)} old. `, cause?.text ?? ""),
    paint(lanes([[request, [`${count(inside.length)} of ${count(known, "member")} ${did}.`,
      !isJoin && live.waiting_for.length > 0 && ` The leader ${nameIn(live, live.waiting_for[0])} assigns.`]]]), {
      of: known || 1, rows: [{ bars: [[0, inside.length, "inside"], [inside.length, known, "none"]] }],
    }),
    timer && h("p", {}, "Next: ", timerText(timer, live, passed), "."),
    h("div", { class: "sides" },
      side("In", "✓", inside, passed),
      side("Missing", "…", missing, passed, isJoin ? live.pending : [])),
  ];
}

function sides(live, isJoin) {
  const isIn = (member) => (isJoin ? member.joined : member.synced);
  return [live.members.filter(isIn), live.members.filter((member) => !isIn(member))];
}

function side(title, sign, members, passed, pending = []) {
  const shown = members.slice(0, NAMES_MOST);
  const rest = members.length - shown.length;
  return h("div", {},
    h("h3", {}, `${title} (${count(members.length + pending.length)})`),
    h("ul", { class: "plain" },
      shown.map((each) => h("li", { "data-key": each.member }, h("span", { "aria-hidden": "true" }, `${sign} `),
        h("bdi", {}, nameOf(each)), " ", h("span", { class: "quiet" }, detail(each, passed)))),
      pending.map((each) => h("li", { "data-key": `p ${each.member}` }, h("span", { "aria-hidden": "true" }, `${sign} `),
        h("bdi", {}, shortId(each.member)), " ",
        h("span", { class: "quiet" }, "has a member id, has not joined yet"))),
      rest > 0 && h("li", {}, `and ${count(rest)} more`),
      members.length + pending.length === 0 && h("li", {}, "none")));
}

/** Tell about a member during a rebalance: where it is, and when it was heard of if that is known. */
export function detail(member, passed) {
  const heard = member.heard === null ? null // by an observer, which sees no requests
    : member.heard ? `heard from ${span(member.heard_ms_ago + passed)} ago` : "not heard from since the load";
  const link = member.connection === "closed" ? "connection closed" : null;
  return [whereOf(member), member.joined ? null : heard, link].filter(Boolean).join(", ");
}

function timerText(timer, live, passed) {
  const who = timer.member === null ? "" : nameIn(live, timer.member);
  const tell = TIMERS[timer.name] ?? (() => `the timer ${timer.name} fires`);
  return `${left(timer.in_ms - passed)} ${tell(who)}`;
}

function nameIn(live, id) {
  const member = live.members.find((each) => each.member === id);
  return member ? nameOf(member) : shortId(id);
}
