// Shows the owner of each partition after each rebalance, as a chart and as a table.

import { h, table } from "./dom.js";
import { count, nameOf, shortId, time } from "./format.js";
import { NOBODY, UNKNOWN, lanes, legend, letterOf, paint } from "./lanes.js";

const ROUNDS = 12; // number of columns
const ROWS_MOST = 60;
const LEAST_WIDE = 150; // pixels of a lane on the narrowest screen
const DIGIT_WIDE = 7; // of a head
const SIGNS = [["unowned", "nobody", NOBODY], ["none", "unknown: the list of assignments was cut", UNKNOWN]];

/** Make the chart for some rounds, oldest first. */
export function ownershipPicture(rounds) {
  const told = rounds.filter((each) => each.assignment !== null || each.outcome === "emptied").slice(-ROUNDS);
  const owners = new Owners(rounds);
  const columns = told.map((round) => owners.column(round));
  const partitions = [...new Set(columns.flatMap((each) => [...each.keys()]))].sort(byTopic);
  if (partitions.length === 0) return h("p", {}, "No consumer assignment is stored.");
  const shown = partitions.slice(0, ROWS_MOST);
  const grid = shown.map((name) => columns.map((column, number) => column.get(name) ?? (isWhole(told[number]) ? NOBODY : UNKNOWN)));
  const seen = new Set(grid.flat());
  return [
    h("p", { class: "quiet" }, "One column per rebalance, labelled with its generation, newest at the right; ▸ marks a partition that moved. Far right: the present owner."),
    paint(lanes(shown.map((name, row) => [partitionName(name), owners.told(grid[row].at(-1))]), "owners"), {
      of: told.length,
      ticks: heads(told),
      rows: grid.map((row) => ({ tall: 22, owners: row.flatMap((owner, at) => (at && row[at - 1] === owner ? [] : [at, owner])) })),
    }),
    shown.length < partitions.length && h("p", {}, `The first ${ROWS_MOST} of ${count(partitions.length)} partitions.`),
    legend({ owners: owners.names.map((name, owner) => (seen.has(owner) ? name : null)), legend: SIGNS.filter((each) => seen.has(each[2])) }),
    h("details", {}, h("summary", {}, "Show as a table"), h("p", { class: "quiet" }, "Heads are generations and times (UTC)."), table("Ownership as a table",
      ["Partition", ...told.map((round) => [`${round.generation}, `, time(round.ended_at_ms ?? round.started_at_ms ?? 0, "")])],
      shown.map((name, row) => [name, name, ...grid[row].map((owner) => shortId(owners.name(owner)))]), "fixed")),
  ];
}

/** Label as many columns as have room for their generations, the last one always. */
function heads(rounds) {
  const longest = Math.max(...rounds.map((each) => `${each.generation}`.length));
  const every = Math.ceil((rounds.length * DIGIT_WIDE * (longest + 1)) / LEAST_WIDE);
  return rounds.map((round, at) => [at + 0.5, (rounds.length - 1 - at) % every ? "" : `${round.generation}`]);
}

/** Make the name of a partition, in which the topic is cut where there is no room, and the number never. */
function partitionName(name) {
  const at = name.lastIndexOf("-");
  return h("span", { class: "partition", title: name }, h("bdi", { class: "cut" }, name.slice(0, at)), h("span", {}, name.slice(at)));
}

/** Numbers members in order of appearance; a static member keeps its number. */
class Owners {
  #numbers = new Map();
  names = [];

  constructor(rounds) {
    for (const round of rounds) {
      for (const { member, instance } of round.assignment ?? []) this.#number(member, instance);
    }
  }

  #number(member, instance) {
    const key = instance ? `i ${instance}` : `m ${member}`;
    if (!this.#numbers.has(key)) this.#numbers.set(key, this.names.push(nameOf({ member, instance })) - 1);
    return this.#numbers.get(key);
  }

  /** Return the owner of each partition after a round. */
  column(round) {
    const found = new Map();
    for (const { member, instance, partitions } of round.assignment ?? []) {
      for (const [topic, numbers] of Object.entries(partitions ?? {})) {
        numbers.forEach((number) => found.set(`${topic}-${number}`, this.#number(member, instance)));
      }
    }
    return found;
  }

  name(owner) {
    return this.names[owner] ?? { [NOBODY]: "–", [UNKNOWN]: "?" }[owner];
  }

  told(owner) {
    const name = this.name(owner);
    return [owner >= 0 && `${letterOf(owner)} `, h("bdi", { title: name }, shortId(name))];
  }
}

/** Whether the owners of all partitions are known after the round. */
function isWhole(round) {
  return round.partitions !== null || round.outcome === "emptied";
}

function byTopic(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}
