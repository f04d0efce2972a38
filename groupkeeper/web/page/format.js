// Formats numbers, durations, times and members as text.

import { h } from "./dom.js";

const COUNT = new Intl.NumberFormat("en");
const DAY_MS = 86_400_000;
const NAME_MOST = 32; // characters of a software's name
const VERSION_MOST = 12;
const LONG_VERSION = /(?<= )(\d+(?:\.\d+)+)-[\w.+-]{6,}(?=\))/g;

/** Format a number with separators; with a noun: "1 member", "2 members". */
export function count(number, noun) {
  const text = COUNT.format(number);
  return noun === undefined ? text : `${text} ${noun}${number === 1 ? "" : "s"}`;
}

/** Format a duration in ms. */
export function span(ms) {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return two(seconds, 60, "min", "s");
  if (seconds < 86_400) return two(Math.floor(seconds / 60), 60, "h", "min");
  return two(Math.floor(seconds / 3_600), 24, "d", "h");
}

function two(number, of, large, small) {
  const rest = number % of;
  return `${count(Math.floor(number / of))} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** Format the time left for a countdown, in seconds. */
export function left(ms) {
  return ms <= 0 ? "now" : `in ${ms < 60_000 ? `${Math.ceil(ms / 1_000)} s` : span(ms)}`;
}

/** Format Unix ms as UTC, which the server's sentences have, too; without the date if it is today's. */
export function moment(ms) {
  const [date, time] = new Date(ms).toISOString().split("T");
  const isToday = new Date().toISOString().startsWith(date);
  return `${isToday ? "" : `${date} `}${time.slice(0, 8)}`;
}

/** Make a <time> element for Unix ms; its title has the browser's time. Without `zone` for tables that name it. */
export function time(ms, zone = " UTC") {
  return h("time", { datetime: new Date(ms).toISOString(), title: localText(ms) }, `${moment(ms)}${zone}`);
}

/** Format Unix ms in the browser's time zone, with its offset. */
function localText(ms) {
  const date = new Date(ms);
  const minutes = -date.getTimezoneOffset();
  const hours = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map((each) => `${each}`.padStart(2, "0"));
  return `${date.toLocaleString("sv-SE")} ${minutes < 0 ? "−" : "+"}${hours.join(":")} here`;
}

/** Format the time since a moment; never negative, as the browser's clock may differ from the server's. */
export function ago(ms) {
  const passed = Math.max(0, Date.now() - ms);
  return passed < DAY_MS || passed < 2 * DAY_MS ? span(passed) : `${count(Math.floor(passed / DAY_MS))} d`;
}

/** Return a member's instance id, else its short member id, else its client id. */
export function nameOf(who) {
  return who.instance || who.instance_id || shortId(who.member ?? who.member_id ?? "") || who.client_id;
}

/** Shorten the UUID at the end of a member id to 8 digits. */
export function shortId(id) {
  return id.replace(/-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, "-$1");
}

/** Return host and software of a client: "on 10.0.0.7, apache-kafka-java 4.1.0". */
export function whereOf(who) {
  const host = hostOf(who);
  return [host && `on ${host}`, softwareOf(who)].filter(Boolean).join(", ");
}

/** Return the address of a client; null if unknown. */
export function hostOf(who) {
  return who.host ? who.host.replace(/^\//, "") : null;
}

/** Return name and version of a client's software, cut to what tells releases apart; null if unknown. */
export function softwareOf({ software }) {
  if (!software) return null;
  const { name, version } = software;
  const isLong = version.length > VERSION_MOST;
  return `${cut(name, NAME_MOST)} ${isLong ? cut(version.split("-", 1)[0], VERSION_MOST) : version}`;
}

/** Cut long versions of clients in a sentence of the server, which ends a client's details with them; whole in a title. */
export function shortVersions(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(LONG_VERSION)) {
    parts.push(text.slice(at, found.index), h("span", { title: found[0] }, found[1]));
    at = found.index + found[0].length;
  }
  return [...parts, text.slice(at)];
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
