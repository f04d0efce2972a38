// A worker on kafkajs: the part of the vocabulary of tests/clients/workers that plays use. A command
// is a line of JSON in, answers and events are lines of JSON out.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Kafka, logLevel } from "kafkajs";

const WAIT_MS = 300; // heartbeats are looked at only between two fetches

let consumer = null;
const read = new Map(); // "topic partition" -> the offset to commit

function tell(event) {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

function log() {
  return ({ label, log: { message, ...more } }) =>
    process.stderr.write(`${label} ${message} ${JSON.stringify(more)}\n`);
}

// What it takes to get in where not everybody may; settings under librdkafka's names.
function entrance(more) {
  if (!more["ssl.ca.location"]) {
    return {};
  }
  const ssl = { ca: [readFileSync(more["ssl.ca.location"])] };
  if (more["ssl.certificate.location"]) {
    ssl.cert = readFileSync(more["ssl.certificate.location"]);
    ssl.key = readFileSync(more["ssl.key.location"]);
  }
  if (!more["sasl.username"]) {
    return { ssl };
  }
  const login = { username: more["sasl.username"], password: more["sasl.password"] };
  return { ssl, sasl: { mechanism: "scram-sha-512", ...login } };
}

async function start({ topics, group, session_ms, heartbeat_ms, more }) {
  const settings = { clientId: more["client.id"], brokers: [process.argv[2]] };
  const kafka = new Kafka({ ...settings, ...entrance(more), logLevel: logLevel.INFO, logCreator: log });
  consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: session_ms,
    rebalanceTimeout: 60_000,
    heartbeatInterval: heartbeat_ms,
    maxWaitTimeInMs: WAIT_MS,
    retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 1_000 },
  });
  consumer.on(consumer.events.REBALANCING, () => {
    read.clear();
    tell({ event: "revoked", partitions: [] });
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload: { memberAssignment } }) => {
    const all = Object.entries(memberAssignment);
    const pairs = all.flatMap(([topic, numbers]) => numbers.map((number) => [topic, number]));
    tell({ event: "assigned", partitions: pairs });
  });
  await consumer.connect();
  await consumer.subscribe({ topics, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      read.set(`${topic} ${partition}`, Number(message.offset) + 1);
      const record = [topic, partition, Number(message.offset), message.value.toString()];
      tell({ event: "records", records: [record] });
    },
  });
}

async function commit() {
  const places = [...read].map(([place, offset]) => {
    const [topic, partition] = place.split(" ");
    return { topic, partition: Number(partition), offset: String(offset) };
  });
  if (places.length > 0) {
    await consumer.commitOffsets(places);
  }
}

async function answer(command) {
  const work = { start, commit, close: () => consumer.disconnect() }[command.do];
  try {
    await work(command);
    tell({ answer: command.id, result: null });
  } catch (error) {
    tell({ answer: command.id, error: error.type ?? error.name, text: error.message });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => answer(JSON.parse(line)));
lines.on("close", () => process.exit(0)); // whoever started this is gone: neither leave nor commit
