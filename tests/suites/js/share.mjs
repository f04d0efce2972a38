// What is checked with @platformatic/kafka, which knows topics by id only: it reads what it wrote, and
// shares a topic with kafkajs and Java's client. Told in the form of Go's test2json, as all suites of
// ours tell it. Arguments: the server's address, and the class path of Kafka's tools.

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";

import { Consumer, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka";
import { Kafka, logLevel } from "kafkajs";

const [BROKER, TOOLS] = process.argv.slice(2);
const EACH = 100;
const LIMIT_SECONDS = 60;

const kafkajs = new Kafka({ brokers: [BROKER], logLevel: logLevel.ERROR });

async function java(tool, ...options) {
  const memory = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
  const command = [...memory, "-cp", TOOLS, `org.apache.kafka.tools.${tool}`, ...options];
  const { stdout } = await promisify(execFile)("java", command, { maxBuffer: 1 << 24 });
  return stdout;
}

/** Each client writes EACH values with its own prefix, and reads `count` values from the beginning. */
const CLIENTS = {
  platformatic: {
    async write(topic, values) {
      const producer = new Producer({
        clientId: "suite",
        bootstrapBrokers: [BROKER],
        serializers: stringSerializers,
      });
      await producer.send({ messages: values.map((value) => ({ topic, key: value, value })) });
      await producer.close();
    },
    async read(topic, count) {
      const consumer = new Consumer({
        clientId: "suite",
        groupId: `${topic}-platformatic`,
        bootstrapBrokers: [BROKER],
        deserializers: stringDeserializers,
      });
      const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
      const values = [];
      for await (const message of stream) {
        values.push(message.value);
        if (values.length === count) {
          break;
        }
      }
      return values;
    },
  },
  kafkajs: {
    async write(topic, values) {
      const producer = kafkajs.producer();
      await producer.connect();
      await producer.send({ topic, messages: values.map((value) => ({ value })) });
      await producer.disconnect();
    },
    async read(topic, count) {
      const consumer = kafkajs.consumer({ groupId: `${topic}-kafkajs` });
      await consumer.connect();
      await consumer.subscribe({ topic, fromBeginning: true });
      const values = [];
      await new Promise((done) => {
        consumer.run({
          eachMessage: async ({ message }) => {
            values.push(message.value.toString());
            if (values.length === count) {
              done();
            }
          },
        });
      });
      await consumer.disconnect();
      return values;
    },
  },
  java: {
    async write(topic, values) {
      const number = ["--max-messages", String(values.length), "--value-prefix", "7"];
      await java("VerifiableProducer", "--bootstrap-server", BROKER, "--topic", topic, ...number);
    },
    async read(topic, count) {
      const from = ["--bootstrap-server", BROKER, "--topic", topic, "--from-beginning"];
      const limit = ["--max-messages", String(count), "--timeout-ms", "30000"];
      const said = await java("consumer.ConsoleConsumer", ...from, ...limit);
      return said.trim().split("\n");
    },
  },
};

function valuesOf(name) {
  const prefix = name === "java" ? "7." : `${name} `; // as the verifiable producer writes them
  return Array.from({ length: EACH }, (_, number) => `${prefix}${number}`);
}

async function create(topic) {
  const admin = kafkajs.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 3 }] });
  await admin.disconnect();
}

/** Everybody writes to one topic, and everybody reads all of it. */
async function share(...names) {
  const topic = `share-${randomUUID()}`;
  await create(topic);
  await Promise.all(names.map((name) => CLIENTS[name].write(topic, valuesOf(name))));
  const expected = names.flatMap(valuesOf).sort().join();
  for (const name of names) {
    const values = await CLIENTS[name].read(topic, names.length * EACH);
    if (values.sort().join() !== expected) {
      throw new Error(`${name} read ${values.length} values, not those that were written`);
    }
  }
}

async function check(name, action) {
  const tell = (what, more = {}) =>
    console.log(JSON.stringify({ Action: what, Test: name, ...more }));
  const began = performance.now();
  tell("run");
  const late = new Promise((_, failed) =>
    setTimeout(() => failed(new Error(`not done in ${LIMIT_SECONDS} s`)), LIMIT_SECONDS * 1_000),
  );
  try {
    await Promise.race([action(), late]);
    tell("pass", { Elapsed: (performance.now() - began) / 1_000 });
  } catch (error) {
    const causes = (error.errors ?? []).map((each) => each.message);
    tell("output", { Output: `${[error.message, ...causes].join(": ")}\n` });
    tell("fail", { Elapsed: (performance.now() - began) / 1_000 });
  }
}

await check("platformatic/alone", () => share("platformatic"));
await check("platformatic/kafkajs/java", () => share("platformatic", "kafkajs", "java"));
process.exit(); // a client that still waits must not keep the process
