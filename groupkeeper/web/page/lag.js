// Lag over the last hour as a line, and offsets by partition.

import { h, s } from "./dom.js";
import { count, moment, span, time } from "./format.js";

const HOUR_MS = 3_600_000;
const WIDTH = 560;
const NARROW = 330; // on a phone, so that text keeps its size
const HEIGHT = 180;
const LEFT = 52;
const RIGHT = 8;
const BOTTOM = 24;
const TOP = 12;
const ROWS_MOST = 200;

/** The picture of one answer. */
export function lagPicture(lag) {
  if (lag.partitions.length === 0) return h("p", {}, "The group has committed no offsets.");
  const points = [...lag.history, { at_ms: lag.at_ms, records: lag.records, lag_ms: lag.lag_ms }];
  const now = `${count(lag.records, "record")}${lag.records && lag.lag_ms !== null ? `, ${span(lag.lag_ms)} behind` : ""}`;
  return [
    h("p", {}, h("strong", {}, now), " now. ", lag.history.length < 60 && h("span", { class: "quiet" },
      `One point a minute since the lag was first asked for: ${count(lag.history.length)} so far.`)),
    chart(points, now),
    h("details", {}, h("summary", {}, "The line as a table"),
      h("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Lag as a table" },
        h("table", {},
          h("thead", {}, h("tr", {}, ["Time", "Records", "Behind by"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, points.toReversed().map((each) => h("tr", {}, h("th", { scope: "row" }, time(each.at_ms)),
            h("td", { class: "number" }, count(each.records)),
            h("td", { class: "number" }, each.lag_ms === null ? "unknown" : span(each.lag_ms)))))))),
  ];
}

function chart(points, now) {
  const width = matchMedia("(max-width: 48rem)").matches ? NARROW : WIDTH;
  const end = points.at(-1).at_ms;
  const most = nice(Math.max(1, ...points.map((each) => each.records)));
  const x = (atMs) => round(LEFT + (width - LEFT - RIGHT) * Math.max(0, 1 - (end - atMs) / HOUR_MS));
  const y = (records) => round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (records / most));
  const line = points.map((each) => `${x(each.at_ms)},${y(each.records)}`).join(" ");
  const highest = points.reduce((one, other) => (other.records > one.records ? other : one));
  const text = `Lag in records over the last hour: ${now} now, ${count(highest.records)} at most, at ${moment(highest.at_ms)}.`;
  return s("svg", { role: "img", "aria-label": text, viewBox: `0 0 ${width} ${HEIGHT}`, class: "lag" },
    [0, most / 2, most].map((each) => s("g", {},
      s("line", { x1: LEFT, x2: width - RIGHT, y1: y(each), y2: y(each), class: "grid" }),
      s("text", { x: LEFT - 6, y: y(each) + 4, class: "label" }, short(each)))),
    [60, 40, 20, 0].map((minutes) => s("text", { x: x(end - minutes * 60_000), y: HEIGHT - 6, class: `head small ${minutes ? "" : "last"}` },
      minutes ? `−${minutes} min` : "now")),
    s("polyline", { points: line, class: "line" }),
    points.map((each) => s("circle", { cx: x(each.at_ms), cy: y(each.records), r: points.length > 30 ? "1.5" : "3", class: "point" })));
}

function round(number) {
  return Math.round(number * 10) / 10;
}

/** The next number of the form 2, 4, 10, 20, 40, 100, ... */
function nice(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return [2, 4, 10].map((each) => each * power).find((each) => each >= number);
}

function short(number) {
  return new Intl.NumberFormat("en", { notation: "compact" }).format(number);
}

/** Committed offsets, ends and lag. */
export function offsetsTable(partitions) {
  if (partitions.length === 0) return h("p", {}, "The group has committed no offsets.");
  const isCut = partitions.length > ROWS_MOST;
  const shown = isCut ? partitions.toSorted((one, other) => other.lag - one.lag).slice(0, ROWS_MOST) : partitions;
  return [
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Offsets" },
      h("table", {},
        h("thead", {}, h("tr", {}, ["Topic", "Partition", "Committed", "End", "Lag", "Behind by"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, shown.map(offsetRow)))),
    isCut && h("p", {}, `The ${ROWS_MOST} with the most lag, of ${count(partitions.length)} partitions.`),
  ];
}

function offsetRow(each) {
  const behind = each.lag_ms === null ? "unknown" : each.lag ? span(each.lag_ms) : "";
  const numbers = [count(each.partition), count(each.committed), count(each.end), count(each.lag), behind];
  return h("tr", { "data-key": `${each.topic}-${each.partition}` }, h("th", { scope: "row" }, h("bdi", {}, each.topic)),
    numbers.map((text) => h("td", { class: "number" }, text)));
}
