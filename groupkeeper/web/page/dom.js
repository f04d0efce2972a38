// Makes and updates DOM nodes. Names chosen by clients become text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element. Attributes that are null, undefined or false are omitted; `on...` are listeners. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  const shown = children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false);
  node.append(...shown);
  return node;
}

/**
 * Make a table in a scrollable container. A row is [key, head, ...cells]. Of the kind "cards", a row is
 * a card on a phone, where cells have the names of their columns; roles keep it a table for screen readers.
 */
export function table(label, heads, rows, kind = "") {
  const isCards = kind.includes("cards");
  const only = (text) => (isCards ? text : null);
  const cell = (each, at) => h("td", { role: only("cell"), "data-name": only(heads[at + 1]) }, each);
  return h("div", { class: `scroll ${kind}`, tabindex: "0", role: "group", "aria-label": label },
    h("table", { role: only("table") },
      h("thead", { role: only("rowgroup") }, h("tr", { role: only("row") }, heads.map((each) => h("th", { scope: "col", role: only("columnheader") }, each)))),
      h("tbody", { role: only("rowgroup") }, rows.map(([key, head, ...cells]) => h("tr", { "data-key": key, role: only("row") },
        h("th", { scope: "row", role: only("rowheader") }, head), cells.map(cell))))));
}

/** Update the children of `parent` to match `children`; kept nodes retain focus, scroll and open state. */
export function show(parent, ...children) {
  const wanted = parent.cloneNode(false);
  fill(wanted, {}, children);
  updateChildren(parent, wanted);
}

function update(from, to) {
  if (from.nodeName !== to.nodeName) {
    from.replaceWith(to);
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  for (const { name } of [...from.attributes]) {
    if (name !== "open" && !to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (name !== "open" && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  updateChildren(from, to);
}

/** Update all children: those with `data-key` are matched by it, others by position. */
function updateChildren(from, to) {
  const wanted = [...to.childNodes];
  const keys = new Set(wanted.map(keyOf));
  const known = new Map([...from.childNodes].map((each) => [keyOf(each), each]));
  let at = from.firstChild;
  for (const next of wanted) {
    while (at !== null && keyOf(at) !== undefined && !keys.has(keyOf(at))) at = removed(at);
    const key = keyOf(next);
    const old = key === undefined ? at : known.get(key);
    if (!old || keyOf(old) !== key) {
      from.insertBefore(next, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else from.insertBefore(old, at);
    update(old, next);
  }
  while (at !== null) at = removed(at);
}

function keyOf(node) {
  return node.dataset?.key;
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}
