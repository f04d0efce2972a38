// Buttons and dialogs that change a group, where the server allows it. A dialog shows what will
// happen, from the API's dry run of the same request, before its last button does it.

import { h, show, table } from "./dom.js";
import { ago, count, nameOf, whereOf } from "./format.js";
import { Refused, post } from "./server.js";

const MEMBERS_MOST = 200; // number of members per request, as in the API
const ROWS_MOST = 200;
const TYPED_MS = 300;
const NAMED = 3; // number of names in a list
const ERRORS = {
  UNKNOWN_MEMBER_ID: "there is no such member any more",
  FENCED_INSTANCE_ID: "another member has the instance id now",
  GROUP_SUBSCRIBED_TO_TOPIC: "a member subscribes the topic",
  UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition any more",
};
const EVERY_TOPIC = "";
const OFFSET = "offset";

export class Changes {
  #name;
  #changed;
  #content;
  #members = [];
  #partitions = [];
  #said = "";
  place = h("div", {});

  /** `changed` is called after a change. Dialogs are put into `content`, which is emptied with the view. */
  constructor(name, content, changed) {
    this.#name = name;
    this.#content = content;
    this.#changed = changed;
  }

  /** Show the buttons for the members and the offsets of the moment; none if changes are disabled. */
  show(isAllowed, members, partitions) {
    this.#members = members;
    this.#partitions = partitions;
    const button = (text, change, isOff = false) => h("button", {
      type: "button", disabled: isOff, onclick: () => this.#open(change(this.#members, this.#partitions)),
    }, text);
    show(this.place, isAllowed && h("section", { "aria-labelledby": "s-changes" },
      h("h2", { id: "s-changes" }, "Changes"),
      h("div", { class: "filters" },
        button("Remove members…", removal, members.length === 0),
        button("Reset offsets…", reset, partitions.length === 0),
        button("Delete offsets…", deletion, partitions.length === 0),
        button("Delete the group…", end)),
      h("p", { role: "status" }, this.#said)));
  }

  #open(change) {
    const dialog = new Dialog(this.#name, change, (text) => {
      this.#said = text;
      this.#changed();
    });
    this.#content.append(dialog.place);
    dialog.place.showModal();
  }
}

class Dialog {
  #segments;
  #change;
  #done;
  #asked = 0; // number of dry runs, so that an answer that is out of date is dropped
  #timer = null;
  #isSent = false;

  constructor(name, change, done) {
    this.#segments = ["groups", name, ...change.path];
    this.#change = change;
    this.#done = done;
    this.told = h("div", { class: "told", role: "status" });
    this.button = h("button", { type: "submit", class: "danger", disabled: true }, change.verb);
    this.place = h("dialog", { "aria-labelledby": "d-title", onclose: () => this.#close(), oninput: () => this.#wait() },
      h("form", { onsubmit: (event) => this.#send(event) },
        h("h2", { id: "d-title" }, change.title),
        change.fields, this.told,
        h("div", { class: "filters" }, this.button,
          h("button", { type: "button", onclick: () => this.place.close() }, "Cancel"))));
    this.#check();
  }

  #close() {
    clearTimeout(this.#timer);
    this.#asked = NaN;
    this.place.remove();
  }

  #wait() {
    this.button.disabled = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), TYPED_MS);
  }

  /** Ask what would happen, and show it. */
  async #check() {
    this.button.disabled = true;
    const asked = ++this.#asked;
    const body = this.#change.body();
    if (typeof body === "string") {
      show(this.told, h("p", {}, body));
      return;
    }
    try {
      const answer = await post(this.#segments, { ...body, dry_run: true });
      if (asked !== this.#asked) return;
      const { text, rows, isAny } = this.#change.told(answer);
      show(this.told, h("p", {}, text), rows);
      this.button.disabled = !isAny;
    } catch (problem) {
      if (asked === this.#asked) this.#refused(problem);
    }
  }

  async #send(event) {
    event.preventDefault(); // the page's policy forbids forms to be sent
    const body = this.#change.body();
    if (this.#isSent || this.button.disabled || typeof body === "string") return;
    this.#isSent = this.button.disabled = true;
    try {
      const answer = await post(this.#segments, body);
      this.place.close();
      this.#done(this.#change.done(answer));
    } catch (problem) {
      this.#isSent = false;
      this.#refused(problem);
    }
  }

  #refused(problem) {
    const text = problem instanceof Refused ? `The server says: ${problem.message}.` : "The server does not respond.";
    show(this.told, h("p", { class: "problem" }, text));
  }
}

// -- what can be changed: title, path, fields, body (or what is missing), and words about an answer --

export function removal(members) {
  const boxes = members.slice(0, MEMBERS_MOST).map((each) => [h("input", { type: "checkbox" }), each]);
  const reason = h("input", { type: "text", maxlength: "1000", autocomplete: "off" });
  const kept = (answer) => answer.members.filter((each) => each.error);
  return {
    title: "Remove members", verb: "Remove", path: ["members", "remove"],
    fields: [
      h("fieldset", { class: "choices" }, h("legend", {}, "Members"),
        boxes.map(([box, each]) => h("label", {}, box, " ", h("bdi", { title: each.member_id }, nameOf(each)), " ",
          h("span", { class: "quiet" }, heardText(each))))),
      members.length > MEMBERS_MOST && h("p", {}, `The first ${MEMBERS_MOST} of ${count(members.length)}.`),
      h("label", {}, "Reason, for events and logs ", reason),
    ],
    body() {
      const chosen = boxes.filter(([box]) => box.checked).map(([, each]) => named(each));
      if (chosen.length === 0) return "Choose the members to remove.";
      return { members: chosen, ...(reason.value.trim() && { reason: reason.value.trim() }) };
    },
    told(answer) {
      const gone = answer.members.length - kept(answer).length;
      const rest = members.length - gone;
      const then = rest > 0 ? `the other ${count(rest)} will rebalance once` : "the group will be Empty";
      const text = gone === 0 ? "No member will be removed."
        : `${count(gone)} of ${count(members.length, "member")} will be removed, and ${then}. A client that still runs joins again.`;
      return { text: text + keptText(kept(answer), nameOf), isAny: gone > 0 };
    },
    done: (answer) => `${count(answer.members.length - kept(answer).length, "member")} removed.${keptText(kept(answer), nameOf)}`,
  };
}

/** A static member is named with its member id, so that one that has restarted meanwhile is kept. */
function named(member) {
  return { member_id: member.member_id, ...(member.instance_id !== null && { instance_id: member.instance_id }) };
}

function heardText(member) {
  const heard = member.last_heard_ms === null ? "not heard from since the load" : `heard from ${ago(member.last_heard_ms)} ago`;
  return [whereOf(member), heard, member.connection === "closed" && "connection closed"].filter(Boolean).join(", ");
}

export function reset(_, partitions) {
  const topic = topicsOf(partitions, true);
  const to = h("select", { oninput: () => (number.hidden = to.value !== OFFSET) },
    h("option", { value: "earliest" }, "the start of the log"), h("option", { value: "latest" }, "the end of the log"),
    h("option", { value: OFFSET }, "an offset"));
  const number = h("input", { type: "number", min: "0", step: "1", hidden: true, "aria-label": "Offset" });
  return {
    title: "Reset offsets", verb: "Reset", path: ["offsets", "reset"],
    fields: [h("label", {}, "Topic ", topic), h("div", { class: "filters" }, h("label", {}, "To ", to), number)],
    body() {
      const offset = to.value === OFFSET ? Number.parseInt(number.value, 10) : to.value;
      if (!Number.isSafeInteger(offset) && to.value === OFFSET) return "Give the offset.";
      return { offsets: chosen(partitions, topic).map((each) => ({ ...placeOf(each), offset })) };
    },
    told(answer) {
      const moves = answer.offsets.map((each) => each.offset - (each.before ?? each.offset));
      const back = -moves.filter((each) => each < 0).reduce(sum, 0);
      const on = moves.filter((each) => each > 0).reduce(sum, 0);
      const beyond = answer.offsets.filter((each) => each.end !== null && each.offset > each.end).length;
      return {
        text: `${count(answer.offsets.length, "offset")} will be set: ${count(back, "record")} will be read again, ${count(on)} will be skipped.`
          + (beyond ? ` ${count(beyond)} of them ${beyond === 1 ? "is" : "are"} beyond the end of the log.` : ""),
        rows: rowsOf("Offsets that will be set", ["Topic", "Partition", "Now", "Then", "End"], answer.offsets,
          (each) => [each.before, each.offset, each.end]),
        isAny: true,
      };
    },
    done: (answer) => `${count(answer.offsets.length, "offset")} set.`,
  };
}

export function deletion(_, partitions) {
  const topic = topicsOf(partitions, false);
  const gone = (answer) => answer.offsets.filter((each) => !each.error && each.before !== null).length;
  const kept = (answer) => answer.offsets.filter((each) => each.error);
  const placeText = (each) => `${each.topic}-${each.partition}`;
  return {
    title: "Delete offsets", verb: "Delete", path: ["offsets", "delete"],
    fields: h("label", {}, "Topic ", topic),
    body: () => ({ offsets: chosen(partitions, topic).map(placeOf) }),
    told: (answer) => ({
      text: (gone(answer) === 0 ? "No offset will be deleted."
        : `${count(gone(answer), "offset")} will be deleted; a consumer without one begins where its auto.offset.reset says.`)
        + keptText(kept(answer), placeText),
      rows: rowsOf("Offsets that will be deleted", ["Topic", "Partition", "Committed"], answer.offsets.filter((each) => !each.error), (each) => [each.before]),
      isAny: gone(answer) > 0,
    }),
    done: (answer) => `${count(gone(answer), "offset")} deleted.${keptText(kept(answer), placeText)}`,
  };
}

export function end() {
  return {
    title: "Delete the group", verb: "Delete", path: ["delete"], fields: null,
    body: () => ({}),
    told: (answer) => ({ text: `The group and its ${count(answer.offsets, "committed offset")} will be deleted.`, isAny: true }),
    done: () => "The group was deleted.",
  };
}

// -- parts ---------------------------------------------------------------------------------------

/** Make a choice of a topic; those that no member subscribes come first. */
function topicsOf(partitions, hasEvery) {
  const topics = [...new Map(partitions.map((each) => [each.topic, each.subscribed]))];
  topics.sort(([one, isRead], [other, isOtherRead]) => isRead - isOtherRead || (one < other ? -1 : 1));
  return h("select", {}, hasEvery && topics.length > 1 && h("option", { value: EVERY_TOPIC }, "all topics"),
    topics.map(([name, isRead]) => h("option", { value: name }, isRead ? name : `${name} (not subscribed)`)));
}

function chosen(partitions, topic) {
  return partitions.filter((each) => topic.value === EVERY_TOPIC || each.topic === topic.value);
}

function placeOf({ topic, partition }) {
  return { topic, partition };
}

function rowsOf(label, heads, offsets, numbers) {
  const shown = offsets.slice(0, ROWS_MOST).map((each) => [null, h("bdi", {}, each.topic), count(each.partition),
    ...numbers(each).map((number) => (number === null ? "none" : count(number)))]);
  return offsets.length > 0 && table(label, heads, shown, "tall numbers");
}

/** Say what stays as it is and why, by the server's errors; up to three names each. */
function keptText(refused, nameIt) {
  return [...new Set(refused.map((each) => each.error))].map((error) => {
    const some = refused.filter((each) => each.error === error);
    const names = some.slice(0, NAMED).map(nameIt).join(", ");
    const more = some.length > NAMED ? ` and ${count(some.length - NAMED)} more` : "";
    return ` ${some.length === 1 ? "Stays" : "Stay"}: ${names}${more}, as ${ERRORS[error] ?? error}.`;
  }).join("");
}

function sum(one, other) {
  return one + other;
}
