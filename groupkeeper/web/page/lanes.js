// Draws all charts: rows of bars, columns or lines over one axis, with a label left and values right.
// Horizontal positions are fractions of the width, so that a chart fits any screen, and paper.

import { h, s } from "./dom.js";

const ROW = 18;
const WIDE = 1_000; // width of a drawing in its own units, about pixels, for even textures
const LEAST = 1.6; // minimum width of a visible mark
const LEVELS = [0.35, 0.65, 1]; // heights of marks: few, some, many
const MARKS = 8; // number of styles of marks
const COLOURS = 8; // classes o0 to o7 of the style sheet
const TEXTURES = ["M0 6L6 0", "M0 0L6 6", "M3 0V6", "M0 3H6", "M0 0M3 3h.1", "M0 6L6 0M0 0L6 6", "", ""];
const HATCH = "M-1 1L1 -1M0 6L6 0M5 7L7 5";
export const NOBODY = -1;
export const UNKNOWN = -2;

/** Make a list for `paint`. `rows` are [label, value] pairs of texts or nodes. */
export function lanes(rows, kind = "") {
  return h("ol", { class: `lanes ${kind}` }, rows.map(([name, words]) => h("li", {},
    h("span", { class: "name" }, name), h("span", { class: "lane" }), h("span", { class: "words" }, words))));
}

/**
 * Draw a chart into a list. The horizontal axis runs from 0 to `of`; `ticks` are [position, text],
 * `rules` are positions of thin lines. A row has one or more of
 *   bars: [from, to, style, text, fraction of the height],
 *   marks: a letter for each step of `of`, "." for none; "a" is the first style at the lowest height,
 *   owners: position, owner, position, owner, ...; each owner extends to the next position,
 *   columns: [from, to, style, bottom, top],   line: [position, value],   rings: [position, value]
 * with values from 0 to `most`, `axis` as [value, text] labels, and `tall` as its height.
 */
export function paint(list, picture) {
  list.querySelectorAll(".lane").forEach((place, number) => place.replaceChildren(lane(picture.rows[number], picture)));
  const { ticks = [] } = picture;
  if (ticks.length) list.prepend(h("li", { class: "axis", "aria-hidden": "true" }, h("span", { class: "ticks" },
    s("svg", { height: ROW }, ticks.map(([at, text], number) => s("text", {
      x: part(at, picture.of), y: 13, class: `small ${["begin", "middle", "end"][side(at / picture.of)]} ${number % 2 ? "odd" : ""}`,
    }, text))))));
  return list;
}

function side(share) {
  return share < 0.04 ? 0 : share > 0.96 ? 2 : 1;
}

function part(at, of) {
  return `${round((100 * at) / of)}%`;
}

function round(number) {
  return Math.round(number * 100) / 100;
}

/** Draw one lane: all shapes in an SVG stretched to the width; texts and rings are not stretched. */
function lane(row, { of, ticks = [], rules = [] }) {
  const { tall = ROW, most = 1 } = row;
  const across = (at) => round((WIDE * at) / of);
  const up = (amount) => round(tall - (tall * amount) / most);
  const upright = (places) => places.map((at) => `M${across(at)} 0V${tall}`).join("");
  const level = (row.axis ?? []).map(([amount]) => `M0 ${up(amount)}H${WIDE}`).join("");
  const bars = [...(row.bars ?? []), ...marked(row.marks ?? ""), ...owned(row.owners ?? [], of)];
  const paths = new Map(); // style -> path, shared by thousands of marks
  const add = (from, to, look, y, height) => {
    const wide = round(Math.max(across(to) - across(from), LEAST));
    paths.set(look, `${paths.get(look) ?? ""}M${across(from)} ${y}h${wide}v${round(height)}h${-wide}z`);
  };
  row.columns?.forEach(([from, to, look, low, high]) => add(from, to, look, up(high), up(low) - up(high)));
  bars.forEach(([from, to, look, , part = 1]) => add(from, to, look, round((tall - 2) * (1 - part) + 1), (tall - 2) * part));
  const line = row.line?.map(([at, amount]) => `${across(at)} ${up(amount)}`).join("L");
  return s("svg", { height: tall, "aria-hidden": "true" },
    s("svg", { width: "100%", height: tall, viewBox: `0 0 ${WIDE} ${tall}`, preserveAspectRatio: "none" },
      s("path", { d: upright(ticks.map(([at]) => at)) + level, class: "grid" }),
      rules.length > 0 && s("path", { d: upright(rules), class: "rule" }),
      [...paths].map(([look, d]) => s("path", { d, class: look })),
      line && [s("path", { d: `M${line}V${tall}H${across(row.line[0][0])}z`, class: "area" }), s("path", { d: `M${line}`, class: "line" })]),
    row.rings?.map(([at, amount]) => s("circle", { cx: part(at, of), cy: up(amount), r: 5, class: "ring" })),
    bars.map(([from, , look, text]) => text && s("text", { x: part(from, of), dx: 3, y: tall / 2 + 4, class: `small on-${look}` }, text)),
    row.axis?.map(([amount, text]) => s("text", { x: 2, y: Math.max(up(amount) - 3, 10), class: "small halo" }, text)));
}

/** Draw marks with a gap between neighbouring steps. */
function marked(marks) {
  return [...marks].flatMap((letter, at) => {
    const code = letter.charCodeAt(0) - 97;
    return code < 0 ? [] : [[at, at + 0.9, `p${code % MARKS}`, null, LEVELS[Math.floor(code / MARKS)]]];
  });
}

/** Draw bars of owners, with letters where they fit; ▸ marks moved partitions. */
function owned(owners, of) {
  const room = (globalThis.matchMedia?.("(max-width: 48rem)").matches ? 0.05 : 0.022) * of;
  const found = [];
  const gaps = []; // drawn last, since they may be short
  let before = null;
  let lettered = null;
  for (let at = 0; at < owners.length; at += 2) {
    const [from, owner, to = of] = owners.slice(at, at + 3);
    if (owner < 0) {
      gaps.push([from, to, owner === NOBODY ? "unowned" : "none"]);
      continue;
    }
    const isMoved = before !== null && before !== owner;
    const hasLetter = to - from >= room && (isMoved || lettered !== owner);
    found.push([from, to, `o${owner % COLOURS}`, hasLetter ? `${isMoved ? "▸" : ""}${letterOf(owner)}` : null]);
    if (hasLetter) lettered = owner;
    before = owner;
  }
  return [...found, ...gaps];
}

/** Return the letter of an owner: A to Z, then A1 to Z1 and so on. */
export function letterOf(owner) {
  return String.fromCharCode(65 + (owner % 26)) + (owner < 26 ? "" : Math.floor(owner / 26));
}

/** Make a legend of styles, and of the owners' letters in order of their numbers. */
export function legend({ legend: looks = [], owners = [] }) {
  const swatch = (look, letter) => s("svg", { width: 22, height: 16, "aria-hidden": "true" },
    s("rect", { width: 22, height: 16, class: look }),
    letter && s("text", { x: 11, y: 12, class: `small middle on-${look}` }, letter));
  return h("ul", { class: "legend" },
    looks.map(([look, text]) => h("li", {}, swatch(look), ` ${text}`)),
    owners.map((name, owner) => name !== null && h("li", {}, swatch(`o${owner % COLOURS}`, letterOf(owner)), " ", h("bdi", {}, name))));
}

/** Make the textures that accompany the colours of styles, once per document. */
export function textures() {
  const pattern = (id, kind, d) => s("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
    s("rect", { width: 6, height: 6, class: kind }), d && s("path", { d, class: `texture ${kind}` }));
  return s("svg", { width: 0, height: 0, class: "defs", "aria-hidden": "true" }, s("defs", {},
    TEXTURES.map((d, number) => pattern(`p${number}`, `c${number}`, d)), pattern("unowned", "bare", HATCH)));
}
