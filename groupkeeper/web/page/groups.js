// The view of all groups, with search, state filter and pages; updated while it is visible.

import { h, show } from "./dom.js";
import { ago, count, shortVersions, span, time } from "./format.js";
import { Follow, Refused, Watch, get, link } from "./server.js";

const ROWS = 50;
const LEAST_MS = 3_000; // minimum interval between requests for the list
const EVERY_MS = 15_000; // maximum interval, since lag changes without events
const UNFOLLOWED_MS = 5_000;
const TYPED_MS = 250;
export const STATES = {
  Stable: "●",
  PreparingRebalance: "◐",
  CompletingRebalance: "◑",
  Assigning: "◐",
  Reconciling: "◑",
  Empty: "○",
  Dead: "✕",
};
const pageBefore = new Map(); // cursor -> the previous page
const COLUMNS = ["Group", "State", "In state for", "Members", "Lag", "Behind by", "Last cause"];

/** Make an element for a state, with a symbol and a colour. */
export function stateOf(state) {
  return h("span", { class: `state ${state}` }, h("span", { "aria-hidden": "true" }, `${STATES[state] ?? "?"} `), state);
}

/** Format lag in records and time; null without committed offsets, of an observer also without ends of logs. */
export function lagTexts(lag, observes = link.observes) {
  if (lag === null) return [observes === null ? "no offsets" : "none known", ""];
  const unknown = observes === null ? "unknown" : ""; // an observer does not read records
  const behind = lag.seconds === null ? unknown : lag.records ? span(lag.seconds * 1_000) : "";
  return [count(lag.records), behind];
}

/** Return the URL hash of a group's view. */
export function addressOf(group) {
  return `#/groups/${encodeURIComponent(group)}`;
}

export class GroupsView {
  #sayLive;
  #query;
  #before; // number of groups on earlier pages; null if unknown
  #lastGroup;
  #page = null;
  #error = null;
  #atMs = null;
  #typed = null;

  constructor(content, query, lastGroup, sayLive) {
    this.#sayLive = sayLive;
    this.#lastGroup = lastGroup;
    this.#query = { search: query.get("search") ?? "", state: query.get("state") ?? "", after: query.get("after") };
    this.#before = this.#query.after === null ? 0 : Number(query.get("before")) || null;
    this.search = h("input", {
      id: "search", type: "search", autocomplete: "off", spellcheck: "false", maxlength: "249",
      oninput: () => this.#wait(),
    });
    this.search.value = this.#query.search;
    this.state = h("select", { id: "state", onchange: () => this.#change() },
      h("option", { value: "" }, "all states"),
      Object.entries(STATES).map(([state, sign]) => h("option", { value: state }, `${sign} ${state}`)));
    this.state.value = this.#query.state;
    this.found = h("p", { class: "found", role: "status" }, "Loading…");
    this.note = h("div", {});
    this.list = h("div", {});
    this.pager = h("nav", { class: "pager", "aria-label": "Pages of groups" });
    content.append(
      h("h1", {}, "Consumer groups"),
      h("form", { class: "filters", role: "search", onsubmit: (event) => this.#submit(event) },
        h("label", { for: "search" }, "Group id contains"), this.search,
        h("label", { for: "state" }, "State"), this.state),
      this.found, this.note, this.list, this.pager);
    this.watch = new Watch(() => this.#load(), () => (this.follow?.isOpen ? EVERY_MS : UNFOLLOWED_MS), LEAST_MS);
    this.follow = new Follow(null, () => this.watch.soon(), () => this.watch.soon());
    this.clock = setInterval(() => this.#show(), 1_000);
  }

  close() {
    this.watch.stop();
    this.follow.stop();
    clearInterval(this.clock);
    clearTimeout(this.#typed);
  }

  /** The URL hash of this list. */
  get address() {
    return this.#address({ before: this.#before });
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  #submit(event) {
    event.preventDefault();
    this.#change();
  }

  #wait() {
    clearTimeout(this.#typed);
    this.#typed = setTimeout(() => this.#change(), TYPED_MS);
  }

  #change() {
    clearTimeout(this.#typed);
    const query = { search: this.search.value, state: this.state.value, after: null };
    if (query.search === this.#query.search && query.state === this.#query.state) return;
    this.#query = query;
    this.#before = 0;
    history.replaceState(null, "", this.#address({}));
    this.watch.now();
  }

  /** Return the URL hash of this list, or of another of its pages. */
  #address(more) {
    const given = Object.entries({ ...this.#query, ...more }).filter(([, value]) => value);
    return given.length ? `#/?${new URLSearchParams(given)}` : "#/";
  }

  async #load() {
    const asked = this.#query;
    let page = null;
    let error = null;
    try {
      page = await get(["groups"], { ...asked, limit: ROWS });
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      error = problem;
    }
    if (asked !== this.#query) {
      this.watch.soon(); // the filter has changed since the request
      return;
    }
    this.#page = page ?? this.#page;
    this.#error = error;
    this.#atMs = Date.now();
    this.#show();
    this.#focusLast();
    if (error) throw error;
  }

  #focusLast() {
    if (this.#lastGroup === null) return;
    const row = this.list.querySelector(`[data-key="${CSS.escape(this.#lastGroup)}"] a`);
    this.#lastGroup = null;
    if (document.activeElement === document.getElementById("content")) row?.focus();
  }

  #show() {
    this.#sayLive(this.follow?.isOpen ?? false, this.#atMs);
    const away = this.#page?.not_active ?? [];
    show(this.note,
      this.#error && h("p", { class: "problem" }, `The server says: ${this.#error.message}`),
      away.length > 0 && h("p", { class: "problem" },
        `Groups are missing here: ${awayText(away)}.`));
    if (this.#page === null) return;
    const { groups, total } = this.#page;
    const text = this.#foundText(groups.length, total);
    if (this.found.textContent !== text) this.found.textContent = text;
    show(this.list, groups.length > 0 && this.#table(groups));
    this.#showPager(groups);
  }

  #foundText(shown, total) {
    const isFiltered = this.#query.search || this.#query.state;
    if (total === 0) return isFiltered ? "No group matches." : "There are no groups yet: a group is created by its first join or commit.";
    const what = `${count(total, "group")}${isFiltered ? (total === 1 ? " fits" : " fit") : ""}`;
    if (shown === total || shown === 0) return `${what}.`;
    if (this.#before === null) return `${what}; ${shown} after “${this.#query.after}”.`;
    return `${what}; ${count(this.#before + 1)} to ${count(this.#before + shown)} are shown.`;
  }

  #table(groups) {
    return h("table", { class: "groups", role: "table", "aria-label": "Groups" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
        COLUMNS.map((name) => h("th", { scope: "col", role: "columnheader" }, name)))),
      h("tbody", { role: "rowgroup" }, groups.map(rowOf)));
  }

  #showPager(groups) {
    const { next } = this.#page;
    const { after } = this.#query;
    const isLater = after !== null;
    if (next !== null) pageBefore.set(next, { after, before: this.#before });
    const before = this.#before === null ? null : this.#before + groups.length;
    show(this.pager,
      isLater && h("a", { href: this.#address({ after: null, before: null }) }, "First page"),
      pageBefore.has(after) && h("a", { href: this.#address(pageBefore.get(after)), rel: "prev" }, `Previous ${ROWS}`),
      next !== null && h("a", { href: this.#address({ after: next, before }), rel: "next" }, `Next ${ROWS}`));
  }
}

function awayText(partitions) {
  const byState = Map.groupBy(partitions, (each) => each.state);
  const texts = [...byState].map(([state, some]) => {
    const { partition, reason } = some[0];
    const why = reason && reason !== state ? ` (of partition ${partition}: ${reason})` : "";
    return `${count(some.length, "partition")} ${some.length === 1 ? "is" : "are"} ${state}${why}`;
  });
  return texts.join(", ");
}

function rowOf(row) {
  const [records, behind] = lagTexts(row.lag);
  const cause = row.last_cause;
  const cells = [
    h("a", { href: addressOf(row.group) }, h("bdi", {}, row.group || "(empty id)")),
    stateOf(row.state),
    ago(row.in_state_since_ms),
    count(row.members),
    records,
    behind,
    cause && [shortVersions(cause.text), " ", h("span", { class: "quiet" }, time(cause.at_ms))],
  ];
  return h("tr", { role: "row", "data-key": row.group },
    cells.map((cell, number) => h(number ? "td" : "th", {
      role: number ? "cell" : "rowheader",
      scope: number ? null : "row",
      "data-name": COLUMNS[number],
      class: ["name", null, "number", "number", "number", "number", "cause"][number],
    }, cell)));
}
