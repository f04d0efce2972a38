// Formats numbers, durations, times and members as text.

import { h } from "./dom.js";

const COUNT = new Intl.NumberFormat("en");
const DAY_MS = 86_400_000;

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

/** Format Unix ms in the browser's time zone. */
export function moment(ms) {
  const date = new Date(ms);
  const time = date.toLocaleTimeString("en-GB");
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? time : `${date.toLocaleDateString("sv-SE")} ${time}`;
}

/** Make a <time> element for Unix ms. */
export function time(ms) {
  const iso = new Date(ms).toISOString();
  return h("time", { datetime: iso, title: iso }, moment(ms));
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
  const software = who.software ? `${who.software.name} ${who.software.version}` : null;
  return [who.host ? `on ${who.host.replace(/^\//, "")}` : null, software].filter(Boolean).join(", ");
}
