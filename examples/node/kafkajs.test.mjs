import assert from 'node:assert'
import { EventEmitter, once } from 'node:events'
import { afterEach, beforeEach, test } from 'node:test'
import { Kafka, logLevel } from 'kafkajs'
import { startBroker } from './broker.mjs'

let broker, consumer, happened

beforeEach(async () => {
  broker = await startBroker('--topic', 'orders:1')
  const kafka = new Kafka({
    brokers: [broker.bootstrap], clientId: 'shop', logLevel: logLevel.NOTHING, retry: { initialRetryTime: 20 }
  })
  consumer = kafka.consumer({ groupId: 'billing', heartbeatInterval: 50, maxWaitTimeInMs: 50 })
  happened = new EventEmitter()
  consumer.on(consumer.events.GROUP_JOIN, () => happened.emit('joined'))
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
})

afterEach(async () => {
  await consumer.disconnect()
  await broker.stop()
})

function run (eachMessage = async () => {}) {
  return consumer.run({ autoCommit: false, eachMessage })
}

// A silent member is removed when its session ends: 30 seconds, which pass at once here.
test('a consumer that was removed joins again', async () => {
  const first = once(happened, 'joined')
  await run()
  await first
  const again = once(happened, 'joined')

  await broker.post('time/advance', { seconds: 31, silent: ['shop'] })

  await again
  const { rounds } = await broker.post('groups/billing/wait', { stable: true, members: 1 })
  assert.ok(rounds.some((round) => round.removed.includes('shop')))
})

// The coordinator has moved when the consumer commits: the commit must be tried again.
test('a commit survives a failover', async () => {
  const fault = await broker.post('faults',
    { effect: { name: 'error', code: 'NOT_COORDINATOR' }, api: 'OffsetCommit', times: 1 })
  await broker.post('topics/orders/records', { records: [{ value: 'a' }] })

  await run(async ({ topic, partition, message }) => {
    const offset = String(Number(message.offset) + 1)
    await consumer.commitOffsets([{ topic, partition, offset }])
  })

  const committed = [{ topic: 'orders', partition: 0, offset: 1 }]
  await broker.post('groups/billing/wait', { committed })
  const { faults } = await broker.get('faults')
  assert.strictEqual(faults.find(({ id }) => id === fault.id).hits, 1)
})
