// Shows the lag of the last hour as a line chart, and a table of offsets by partition.

import { h, table } from "./dom.js";
import { count, moment, span, time } from "./format.js";
import { lanes, paint } from "./lanes.js";
import { link } from "./server.js";

const HOUR_MS = 3_600_000;
const ROWS_MOST = 200;

/** Tell that there are no committed offsets; an observer lists only those whose log end it was told. */
export function noneText(observes = link.observes) {
  return observes === null ? "The group has committed no offsets." : "No committed offset with a log end is known.";
}

/** Make the chart for one API response. */
export function lagPicture(lag) {
  if (lag.partitions.length === 0) return h("p", {}, noneText());
  const points = [...lag.history, { at_ms: lag.at_ms, records: lag.records, lag_ms: lag.lag_ms }];
  const now = `${count(lag.records, "record")}${lag.records && lag.lag_ms !== null ? `, ${span(lag.lag_ms)} behind` : ""}`;
  const highest = points.reduce((one, other) => (other.records > one.records ? other : one));
  return [
    h("p", {}, h("strong", {}, now), " now. ", lag.history.length < 60 && h("span", { class: "quiet" },
      `One point a minute since the lag was first asked for: ${count(lag.history.length)} so far.`)),
    paint(lanes([["Records", `at most ${count(highest.records)}, at ${moment(highest.at_ms)} UTC`]], "lag"), lineOf(points)),
    h("details", {}, h("summary", {}, "The line as a table"),
      table("Lag as a table", ["Time (UTC)", "Records", "Behind by"], points.toReversed().map((each) =>
        [null, time(each.at_ms, ""), count(each.records), each.lag_ms === null ? "unknown" : span(each.lag_ms)]), "tall numbers")),
  ];
}

function lineOf(points) {
  const since = points.at(-1).at_ms - HOUR_MS;
  const most = nice(Math.max(1, ...points.map((each) => each.records)));
  return {
    of: HOUR_MS,
    ticks: [60, 40, 20, 0].map((minutes) => [HOUR_MS - minutes * 60_000, minutes ? `−${minutes} min` : "now"]),
    rows: [{
      tall: 150, most,
      axis: [0, most / 2, most].map((each) => [each, new Intl.NumberFormat("en", { notation: "compact" }).format(each)]),
      line: points.map((each) => [Math.max(0, each.at_ms - since), each.records]),
    }],
  };
}

/** Round up to the next of 2, 4, 10, 20, 40, 100, ... */
function nice(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return [2, 4, 10].map((each) => each * power).find((each) => each >= number);
}

/** Make a table of committed offsets, log end offsets and lag. */
export function offsetsTable(partitions) {
  if (partitions.length === 0) return h("p", {}, noneText());
  const isCut = partitions.length > ROWS_MOST;
  const shown = isCut ? partitions.toSorted((one, other) => other.lag - one.lag).slice(0, ROWS_MOST) : partitions;
  return [
    table("Offsets", ["Topic", "Partition", "Committed", "End", "Lag", "Behind by"], shown.map(offsetRow), "numbers cards"),
    isCut && h("p", {}, `The ${ROWS_MOST} with the most lag, of ${count(partitions.length)} partitions.`),
    partitions.some((each) => !each.subscribed) && h("p", { class: "quiet" },
      "No member subscribes the topics marked “not subscribed”: they do not count in the lag of the group."),
  ];
}

function offsetRow(each) {
  const known = each.lag_ms === null ? "unknown" : each.lag ? span(each.lag_ms) : "";
  const behind = each.subscribed ? known : h("span", { class: "quiet" }, "not subscribed");
  const numbers = [each.partition, each.committed, each.end, each.lag].map((number) => count(number));
  return [`${each.topic}-${each.partition}`, h("bdi", {}, each.topic), ...numbers, behind];
}
