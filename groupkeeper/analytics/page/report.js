// Draws the pictures of a report, sorts its tables, and opens its groups.

import { h } from "./dom.js";
import { legend, paint, textures } from "./lanes.js";

const numbers = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function sortable(table) {
  for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
    head.replaceChildren(h("button", { type: "button", onclick: () => sort(table, head, column) }, head.textContent));
  }
}

function sort(table, head, column) {
  const was = head.getAttribute("aria-sort");
  const isUp = was === "descending" || (was === null && !head.classList.contains("number"));
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
  keyed.sort((one, other) => compare(one[0], other[0], isUp ? 1 : -1));
  body.append(...keyed.map((each) => each[1]));
}

// What is not known stays at the end, whichever way.
function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  return sign * (typeof one === "number" && typeof other === "number" ? one - other : numbers.compare(one, other));
}

function keyOf(cell) {
  const text = cell.dataset.k ?? cell.textContent;
  if (text.trim() === "–") return null;
  const number = Number(text.replace(/[,%<>\s]/g, ""));
  return text !== "" && !Number.isNaN(number) ? number : text;
}

// links lead into groups that are closed, and paper shows all
function open(panels) {
  for (const each of panels) if (each) each.open = true;
}

addEventListener("beforeprint", () => open(document.querySelectorAll(".group-panel")));
document.addEventListener("click", (event) => {
  const hash = event.target.closest("a")?.getAttribute("href") ?? "";
  if (hash.startsWith("#group-")) open([document.querySelector(hash).closest("details")]);
});
document.body.append(textures());
for (const [name, picture] of Object.entries(JSON.parse(document.getElementById("pictures").textContent))) {
  const list = document.querySelector(`#${name} .lanes`);
  list.before(legend(picture));
  paint(list, picture);
}
document.querySelectorAll("table.sortable").forEach(sortable);
