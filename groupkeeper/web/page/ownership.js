// Shows the owner of each partition after each rebalance, as a chart and as a table.

import { h, table } from "./dom.js";
import { count, nameOf, shortId, time } from "./format.js";
import { NOBODY, UNKNOWN, lanes, legend, letterOf, paint } from "./lanes.js";

const ROUNDS = 12; // number of columns
const ROWS_MOST = 60;
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
    paint(lanes(shown.map((name, row) => [h("bdi", {}, name), owners.told(grid[row].at(-1))]), "owners"), {
      of: told.length,
      ticks: told.map((round, at) => [at + 0.5, `${round.generation}`]),
      rows: grid.map((row) => ({ tall: 22, owners: row.flatMap((owner, at) => (at && row[at - 1] === owner ? [] : [at, owner])) })),
    }),
    shown.length < partitions.length && h("p", {}, `The first ${ROWS_MOST} of ${count(partitions.length)} partitions.`),
    legend({ owners: owners.names.map((name, owner) => (seen.has(owner) ? name : null)), legend: SIGNS.filter((each) => seen.has(each[2])) }),
    h("details", {}, h("summary", {}, "Show as a table"), table("Ownership as a table",
      ["Partition", ...told.map((round) => [`${round.generation}, `, time(round.ended_at_ms ?? round.started_at_ms ?? 0)])],
      shown.map((name, row) => [name, name, ...grid[row].map((owner) => shortId(owners.name(owner)))]))),
  ];
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
    return [owner >= 0 && `${letterOf(owner)} `, h("bdi", {}, shortId(this.name(owner)))];
  }
}

/** Whether the owners of all partitions are known after the round. */
function isWhole(round) {
  return round.partitions !== null || round.outcome === "emptied";
}

function byTopic(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}
