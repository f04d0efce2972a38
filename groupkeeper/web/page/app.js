// Entry point of the page: shows the view for the URL hash, and a warning while the server is down.

import { h, show } from "./dom.js";
import { left, time } from "./format.js";
import { GroupView } from "./group.js";
import { GroupsView } from "./groups.js";
import { textures } from "./lanes.js";
import { link, observerText, unreadText } from "./server.js";
import { openWithToken, token, tokenForm } from "./token.js";

const GROUP = "/groups/";
const content = document.getElementById("content");
const live = document.getElementById("live");
const observing = document.getElementById("observing");
const trouble = document.getElementById("trouble");
const access = document.getElementById("access");
const forget = document.getElementById("forget");

let view = null;
let listAddress = "#/";
let lastGroup = null;

function route() {
  const [path, query] = (location.hash.slice(1) || "/").split("?", 2);
  const isFirst = view === null;
  if (view instanceof GroupsView) listAddress = view.address;
  view?.close();
  content.replaceChildren();
  if (path.startsWith(GROUP)) {
    lastGroup = decoded(path.slice(GROUP.length));
    document.title = `${lastGroup} · Groupkeeper`;
    view = new GroupView(content, lastGroup, listAddress, sayLive);
  } else {
    listAddress = location.hash || "#/";
    document.title = "Groupkeeper";
    view = new GroupsView(content, new URLSearchParams(query), lastGroup, sayLive);
  }
  if (!isFirst) content.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Show in the corner how the data is updated, and how old it is. */
function sayLive(isStream, atMs) {
  if (atMs === null) return;
  show(live, isStream ? "Live, " : "Asked now and then, ", "as of ", time(atMs));
}

function sayTrouble() {
  show(observing, link.observes !== null && h("p", {}, observerText(link.observes)));
  if (!link.isLost) {
    show(trouble, link.unread && h("p", {}, unreadText(link.unread, time)));
    return;
  }
  const wait = link.nextAt === null ? "Trying now." : `Trying again ${left(link.nextAt - Date.now())}.`;
  show(
    trouble,
    h("p", {}, "The server has not responded since ", time(link.lostAt), "; the data shown is older. "),
    // a countdown that screen readers do not announce each second
    h("p", { "aria-live": "off" }, `${wait} `, h("button", { type: "button", onclick: () => link.tryNow() }, "Try now")),
  );
}

/** Ask for a token if the server does; offer to forget the one there is. */
function sayToken() {
  access.replaceChildren(...(token.isWanted ? [tokenForm()] : []));
  forget.hidden = !token.isHeld;
}

document.addEventListener("click", (event) => {
  const href = event.target.closest("a[href]")?.getAttribute("href");
  if (!token.isHeld || !href || href.startsWith("#")) return;
  event.preventDefault();
  openWithToken(href).catch(() => link.lost());
});
token.addEventListener("wanted", sayToken);
token.addEventListener("given", () => {
  sayToken();
  route();
});
forget.addEventListener("click", () => token.give(null));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return; // Escape closes it
  const isTyping = event.target.matches("input, select");
  if (event.key === "Escape" && view instanceof GroupView) location.hash = listAddress;
  else if (event.key === "/" && !isTyping && view instanceof GroupsView) {
    event.preventDefault();
    view.focusSearch();
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the URL hash is reserved for views
  content.focus();
});
addEventListener("hashchange", route);
document.body.append(textures());
link.addEventListener("change", sayTrouble);
link.addEventListener("back", sayTrouble);
sayToken();
setInterval(() => link.isLost && sayTrouble(), 1_000);
route();
