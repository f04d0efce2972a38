// Sorting and filtering of tables, and choosing a group: the page is complete without.
"use strict";

const numbers = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function sortable(table) {
  table.tHead.rows[0].querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head, column));
  });
}

function sort(table, head, column) {
  const wasUp = head.getAttribute("aria-sort") === "ascending";
  const wasDown = head.getAttribute("aria-sort") === "descending";
  const isUp = wasDown || (!wasUp && !head.classList.contains("number"));
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
  keyed.sort((one, other) => compare(one[0], other[0], isUp ? 1 : -1));
  body.append(...keyed.map((each) => each[1]));
}

// What is not known stays at the end, whichever way.
function compare(one, other, sign) {
  if (one === other) return 0;
  if (one === null) return 1;
  if (other === null) return -1;
  return sign * (typeof one === "number" && typeof other === "number" ? one - other : numbers.compare(one, other));
}

function keyOf(cell) {
  const text = cell.dataset.k ?? cell.textContent;
  if (text === "–") return null;
  const number = Number(text.replace(/[,%<>\s]/g, ""));
  return text !== "" && !Number.isNaN(number) ? number : text;
}

function filterable(input) {
  const rows = [...document.getElementById(input.dataset.table).querySelectorAll("tbody tr")];
  const names = rows.map((row) => row.cells[0].textContent.toLowerCase());
  const told = input.closest(".filter").querySelector("[role=status]");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    let found = 0;
    rows.forEach((row, number) => {
      row.hidden = !names[number].includes(wanted);
      found += !row.hidden;
    });
    told.textContent = wanted ? `${found} of ${rows.length}` : "";
  });
  input.closest(".filter").hidden = false;
}

function chooser(select) {
  const panels = [...select.options].filter((each) => each.value).map((each) => document.getElementById(each.value));
  const show = () => panels.forEach((each) => { each.hidden = select.value !== "" && each.id !== select.value; });
  // a link to a group that is hidden shows it
  const follow = (hash) => {
    const wanted = panels.find((each) => `#${each.id}` === hash);
    if (!wanted) return;
    select.value = wanted.id;
    show();
    wanted.scrollIntoView();
  };
  select.addEventListener("change", show);
  window.addEventListener("hashchange", () => follow(location.hash));
  document.addEventListener("click", (event) => follow(event.target.closest("a")?.getAttribute("href")));
  select.closest(".choose").hidden = false;
  show();
  follow(location.hash);
}

document.querySelectorAll("#choose").forEach(chooser);
document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll(".filter input").forEach(filterable);
