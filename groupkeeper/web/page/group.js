// The view of one group: present state, rebalances, ownership, lag, members, offsets.

import { Barrier } from "./barrier.js";
import { Changes } from "./changes.js";
import { h, show, table } from "./dom.js";
import { ago, count, hostOf, nameOf, shortId, softwareOf, span } from "./format.js";
import { lagTexts, stateOf } from "./groups.js";
import { lagPicture, offsetsTable } from "./lag.js";
import { ownershipPicture } from "./ownership.js";
import { Follow, Refused, Watch, get, hrefOf, link } from "./server.js";
import { Timeline } from "./timeline.js";

const QUIET_MS = 5_000; // update interval of a stable group
const BUSY_MS = 1_000; // update interval during a rebalance; also the minimum
const MEMBERS_MS = 15_000;
const MEMBERS_LEAST_MS = 2_000;
const LAG_MS = 10_000;
const ROWS_MOST = 200;
const JSON_PARTS = ["why", "timeline", "members", "lag", "events"]; // of the API

export class GroupView {
  #name;
  #sayLive;
  #group = null;
  #members = null;
  #lag = null;
  #error = null;
  #atMs = null;

  constructor(content, name, back, sayLive) {
    this.#name = name;
    this.#sayLive = sayLive;
    this.head = h("div", { class: "facts" });
    this.note = h("div", { role: "status" });
    this.places = Object.fromEntries(["ownership", "lag", "members", "offsets"].map((each) => [each, h("div", {})]));
    this.barrier = new Barrier();
    this.timeline = new Timeline(name, () => this.#showOwnership());
    this.changes = new Changes(name, content, () => Object.values(this.watches).forEach((each) => each.soon()));
    content.append(
      h("p", { class: "back" }, h("a", { href: back }, "← All groups")),
      h("h1", {}, h("bdi", {}, name || "(empty id)")),
      this.head, this.note,
      section("Now", this.barrier.place),
      h("div", { class: "columns" },
        h("div", {},
          section("Rebalances and other events", this.timeline.place),
          section("Members", this.places.members),
          this.changes.place),
        h("div", {},
          section("Ownership of partitions", this.places.ownership),
          section("Lag in the last hour", this.places.lag),
          section("Offsets", this.places.offsets))),
      h("p", { class: "quiet" }, "As JSON: ", JSON_PARTS.map((each) => [h("a", { href: hrefOf(["groups", name, each]) }, each), " "])));
    this.watches = {
      now: new Watch(() => this.#loadNow(), () => (this.#group?.live?.rebalance || !this.follow?.isOpen ? BUSY_MS : QUIET_MS), BUSY_MS),
      rounds: this.timeline.watch,
      members: new Watch(() => this.#loadMembers(), () => MEMBERS_MS, MEMBERS_LEAST_MS),
      lag: new Watch(() => this.#loadLag(), () => LAG_MS, MEMBERS_LEAST_MS),
    };
    const look = () => {
      ["now", "rounds", "members"].forEach((each) => this.watches[each].soon());
      this.#showNow();
    };
    this.follow = new Follow(name, look, look);
    this.clock = setInterval(() => this.#showNow(), 1_000);
  }

  close() {
    Object.values(this.watches).forEach((each) => each.stop());
    this.follow.stop();
    clearInterval(this.clock);
  }

  async #loadNow() {
    try {
      this.#group = await get(["groups", this.#name]);
      this.#error = null;
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      this.#error = problem;
      if (problem.status === 404) this.#group = this.#members = this.#lag = null;
    }
    this.#atMs = Date.now();
    this.barrier.take(this.#group);
    this.#showNow();
    this.#showTables();
    if (this.#error) throw this.#error;
  }

  async #loadMembers() {
    this.#members = await get(["groups", this.#name, "members"]);
    this.#showTables();
  }

  async #loadLag() {
    try {
      this.#lag = await get(["groups", this.#name, "lag"]);
    } catch (problem) {
      // An observer may not ask where logs end.
      if (link.observes === null || problem.status !== 404) throw problem;
      this.#lag = null;
    }
    this.#showTables();
  }

  #showNow() {
    this.#sayLive(this.follow?.isOpen ?? false, this.#atMs);
    const { status, message } = this.#error ?? {};
    show(this.note, this.#error && h("p", { class: "problem" },
      `The server says: ${message}.`, status === 404 ? " It is shown as soon as it exists." : " The page keeps asking."));
    show(this.head, this.#group && headOf(this.#group));
    this.barrier.show();
  }

  #showOwnership() {
    show(this.places.ownership, ownershipPicture(this.timeline.rounds));
  }

  #showTables() {
    show(this.places.members, this.#members ? membersTable(this.#members.members) : h("p", {}, "None known."));
    const none = link.observes === null ? "Not known." : "Not observed.";
    show(this.places.lag, this.#lag ? lagPicture(this.#lag) : h("p", {}, none));
    show(this.places.offsets, this.#lag ? offsetsTable(this.#lag.partitions) : h("p", {}, none));
    this.changes.show(this.#group?.writes_enabled, this.#members?.members ?? [], this.#lag?.partitions ?? []);
  }
}

function section(title, place) {
  const id = `s-${title.toLowerCase().replaceAll(" ", "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), place);
}

function headOf(group) {
  const [records, behind] = lagTexts(group.lag);
  const facts = {
    State: stateOf(group.state),
    "In state for": ago(group.in_state_since_ms),
    Members: count(group.members),
    [group.type === "classic" ? "Generation" : "Epoch"]: count(group.generation),
    Lag: behind ? `${records}, ${behind}` : records,
    Type: group.type,
    "Protocol type": group.protocol_type || "none",
    Protocol: group.protocol ?? "none",
    Leader: group.leader === null ? "none" : shortId(group.leader),
  };
  return h("dl", {}, Object.entries(facts).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function membersTable(members) {
  if (members.length === 0) return h("p", {}, "The group has no members.");
  const shown = members.slice(0, ROWS_MOST);
  return [
    table("Members", ["Member", "Client", "Last heard", "Session timeout", "Assignment"], shown.map(memberRow), "cards"),
    members.length > shown.length && h("p", {}, `The first ${ROWS_MOST} of ${count(members.length)}.`),
  ];
}

function memberRow(member) {
  const heard = member.reserved_ms !== null ? `lost, reserved for ${span(member.reserved_ms)}` : member.last_heard_ms === null ? (link.observes === null ? "not since the load" : "not observed") : `${ago(member.last_heard_ms)} ago`;
  const epoch = member.epoch === null ? "" : `, epoch ${member.epoch}`;
  const kind = `${member.instance_id === null ? "dynamic" : "static"}${member.standby ? ", stands by" : ""}${epoch}`;
  return [
    member.member_id,
    [h("bdi", { title: member.member_id }, nameOf(member)), " ", h("span", { class: "quiet" }, kind)],
    clientOf(member),
    heard, member.session_timeout_ms === null ? "not known" : span(member.session_timeout_ms), assignmentText(member.assignment),
  ];
}

function clientOf(member) {
  const software = member.software && `${member.software.name} ${member.software.version}`;
  return [
    hostOf(member) ?? "unknown", " ",
    h("span", { class: "quiet", title: software }, softwareOf(member)),
    member.connection === "closed" && ", connection closed",
  ];
}

function assignmentText(assignment) {
  if (assignment === null) return "not that of a consumer";
  const texts = assignment.map(({ topic, partitions }) => {
    const some = partitions.slice(0, 20).join(" ");
    return `${topic}: ${some}${partitions.length > 20 ? ` and ${partitions.length - 20} more` : ""}`;
  });
  return texts.join("; ") || "none";
}
