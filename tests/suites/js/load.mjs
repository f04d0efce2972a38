// What is checked with kafkajs: 40 MB from a producer as it is by default are delivered, by its own
// account and in the logs. Told in the form of Go's test2json, as all suites of ours tell it.
// Arguments: the server's address.

import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";

import { Kafka, logLevel } from "kafkajs";

const PARTITIONS = 50;
const RECORDS = 40_000;
const SIZE = 1_000;
const AT_ONCE = 1_000; // kafkajs collects nothing: what is sent together is a request
const LIMIT_SECONDS = 60;

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.ERROR });

function value(number) {
  return String(number).padStart(8, "0").padEnd(SIZE, "x");
}

/** Wait for a promise, but no longer than a check may take; whether it was kept. */
async function inTime(promise) {
  const waiting = new AbortController();
  const late = setTimeout(LIMIT_SECONDS * 1_000, false, { signal: waiting.signal });
  late.catch(() => {}); // it is stopped below
  const kept = await Promise.race([promise.then(() => true), late]);
  waiting.abort();
  return kept;
}

async function create(topic) {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] });
  await admin.disconnect();
}

async function produce(topic) {
  const producer = kafka.producer();
  await producer.connect();
  let delivered = 0;
  const sent = [];
  for (let first = 0; first < RECORDS; first += AT_ONCE) {
    const messages = Array.from({ length: AT_ONCE }, (_, more) => ({ value: value(first + more) }));
    sent.push(producer.send({ topic, messages }).then(() => (delivered += AT_ONCE)));
  }
  if (!(await inTime(Promise.all(sent)))) {
    throw new Error(`${delivered} of ${RECORDS} records delivered in ${LIMIT_SECONDS} s`);
  }
  await producer.disconnect();
}

async function read(topic) {
  const consumer = kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let records = 0;
  const different = new Set();
  const all = new Promise((done, failed) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        if (message.value.length !== SIZE) {
          failed(new Error(`a record of ${message.value.length} bytes`));
        }
        records += 1;
        different.add(message.value.toString("latin1", 0, 8));
        if (records === RECORDS) {
          done();
        }
      },
    });
  });
  if (!(await inTime(all)) || different.size !== RECORDS) {
    throw new Error(`${records} records read, ${different.size} different ones, of ${RECORDS}`);
  }
  await consumer.disconnect();
}

function tell(action, more = {}) {
  console.log(JSON.stringify({ Action: action, Test: "load", ...more }));
}

const began = performance.now();
const topic = `load-${randomUUID()}`;
let action = "pass";
tell("run");
try {
  await create(topic);
  await produce(topic);
  await read(topic);
} catch (error) {
  tell("output", { Output: `${error.message}\n` });
  action = "fail";
}
tell(action, { Elapsed: (performance.now() - began) / 1_000 });
process.exit(); // a client that still waits must not keep the process
