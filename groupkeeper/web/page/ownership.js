// Who owned which partition after each rebalance: a picture, and the same as a table.

import { h, s } from "./dom.js";
import { count, moment, nameOf, shortId, time } from "./format.js";
import { keyOf } from "./timeline.js";

const ROUNDS = 12; // columns
const ROWS_MOST = 60;
const COLUMN = 52;
const ROW = 22;
const HEAD = 40;
const CHARACTER = 7.2;
const COLOURS = 8; // classes o0 to o7 of the style sheet
const UNKNOWN = "?";
const NOBODY = "–";

/** The picture of some rounds, oldest first. */
export function ownershipPicture(rounds) {
  const told = rounds.filter((each) => each.assignment !== null || each.outcome === "emptied").slice(-ROUNDS);
  const owners = new Owners(rounds);
  const columns = told.map((round) => owners.column(round));
  const partitions = [...new Set(columns.flatMap((each) => [...each.keys()]))].sort(byTopic);
  if (partitions.length === 0) return h("p", {}, "No assignment of a consumer is stored.");
  const shown = partitions.slice(0, ROWS_MOST);
  const grid = shown.map((name) => columns.map((column, number) => column.get(name) ?? (isWhole(told[number]) ? NOBODY : UNKNOWN)));
  return [
    h("p", { class: "quiet" }, "One column for each rebalance, by the generation it led to, the newest at the right; ▸ marks a partition that moved."),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Picture of the ownership" },
      picture(shown, told, grid, owners)),
    shown.length < partitions.length && h("p", {}, `The first ${ROWS_MOST} of ${count(partitions.length)} partitions.`),
    legend(grid, owners),
    h("details", {}, h("summary", {}, "The picture as a table"), table(shown, told, grid, owners)),
  ];
}

/** Letters for members, in the order in which they appear; a static member keeps its own. */
class Owners {
  #letters = new Map();
  #names = new Map();

  constructor(rounds) {
    for (const round of rounds) {
      for (const { member, instance } of round.assignment ?? []) this.#meet(member, instance);
    }
  }

  #meet(member, instance) {
    const key = keyOfMember(member, instance);
    if (this.#letters.has(key)) return;
    const number = this.#letters.size;
    const letter = String.fromCharCode(65 + (number % 26)) + (number < 26 ? "" : Math.floor(number / 26));
    this.#letters.set(key, { letter, colour: number % COLOURS });
    this.#names.set(letter, nameOf({ member, instance }));
  }

  /** Partition -> letter, after a round. */
  column(round) {
    const found = new Map();
    for (const { member, instance, partitions } of round.assignment ?? []) {
      const { letter } = this.#letters.get(keyOfMember(member, instance));
      for (const [topic, numbers] of Object.entries(partitions ?? {})) {
        numbers.forEach((number) => found.set(`${topic}-${number}`, letter));
      }
    }
    return found;
  }

  name(letter) {
    return this.#names.get(letter) ?? letter;
  }

  colour(letter) {
    return [...this.#letters.values()].find((each) => each.letter === letter)?.colour ?? null;
  }
}

function keyOfMember(member, instance) {
  return instance ? `i ${instance}` : `m ${member}`;
}

/** Whether the round tells the owners of all partitions. */
function isWhole(round) {
  return round.partitions !== null || round.outcome === "emptied";
}

function byTopic(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}

function picture(names, rounds, grid, owners) {
  const longest = Math.min(24, Math.max(...names.map((each) => each.length)));
  const edge = Math.ceil(longest * CHARACTER) + 10;
  const width = edge + rounds.length * COLUMN;
  const height = HEAD + names.length * ROW;
  const text = `Owners of ${count(names.length, "partition")} after ${count(rounds.length, "rebalance")}. The same is in the table below.`;
  return s("svg", { role: "img", "aria-label": text, viewBox: `0 0 ${width} ${height}`, width, height, class: "ownership" },
    rounds.map((round, number) => head(round, edge + number * COLUMN)),
    names.map((name, row) => [
      s("text", { x: edge - 8, y: HEAD + row * ROW + 15, class: "label" }, s("title", {}, name), name.length > longest ? `…${name.slice(1 - longest)}` : name),
      grid[row].map((letter, number) => cell(grid[row], letter, number, edge, HEAD + row * ROW, owners)),
    ]));
}

function head(round, x) {
  const [first, second] = moment(round.ended_at_ms ?? round.started_at_ms ?? 0).split(" ");
  return s("g", {},
    s("title", {}, `generation ${round.generation}`),
    s("text", { x: x + COLUMN / 2, y: 14, class: "head" }, `${round.generation}`),
    s("text", { x: x + COLUMN / 2, y: 30, class: "head small" }, (second ?? first).slice(0, 8)));
}

function cell(row, letter, number, edge, y, owners) {
  const colour = owners.colour(letter);
  const isMoved = number > 0 && colour !== null && row[number - 1] !== letter && owners.colour(row[number - 1]) !== null;
  const isRun = number > 0 && row[number - 1] === letter;
  const x = edge + number * COLUMN + (isRun ? 0 : 2);
  const isLast = row[number + 1] !== letter;
  return s("g", {},
    s("rect", { x, y: y + 2, width: COLUMN - (isRun ? 0 : 2) - (isLast ? 2 : 0), height: ROW - 4, class: colour === null ? "none" : `o${colour}` }),
    s("text", { x: edge + number * COLUMN + COLUMN / 2, y: y + 15, class: colour === null ? "letter none" : `letter t${colour}` }, `${isMoved ? "▸" : ""}${letter}`));
}

function legend(grid, owners) {
  const letters = [...new Set(grid.flat())].filter((each) => owners.colour(each) !== null);
  const more = { [UNKNOWN]: "unknown: the list of assignments was cut", [NOBODY]: "nobody" };
  return h("ul", { class: "legend" },
    letters.map((letter) => h("li", {},
      s("svg", { width: "22", height: "18", "aria-hidden": "true" },
        s("rect", { width: "22", height: "18", class: `o${owners.colour(letter)}` }),
        s("text", { x: "11", y: "13", class: `letter t${owners.colour(letter)}` }, letter)),
      " ", h("bdi", {}, owners.name(letter)))),
    Object.entries(more).map(([sign, text]) => grid.flat().includes(sign) && h("li", {}, `${sign} ${text}`)));
}

function table(names, rounds, grid, owners) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Ownership as a table" },
    h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Partition"),
        rounds.map((round) => h("th", { scope: "col", "data-key": keyOf(round) }, `${round.generation}, `, time(round.ended_at_ms ?? round.started_at_ms ?? 0))))),
      h("tbody", {}, names.map((name, row) => h("tr", { "data-key": name }, h("th", { scope: "row" }, name),
        grid[row].map((letter) => h("td", {}, owners.colour(letter) === null ? letter : shortId(owners.name(letter)))))))));
}
