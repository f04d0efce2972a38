import assert from 'node:assert'
import { once } from 'node:events'
import { afterEach, beforeEach, test } from 'node:test'
import { Consumer, stringDeserializers } from '@platformatic/kafka'
import { startBroker } from './broker.mjs'

let broker, consumer

beforeEach(async () => {
  broker = await startBroker('--topic', 'orders:1')
  consumer = new Consumer({
    bootstrapBrokers: [broker.bootstrap],
    clientId: 'shop',
    groupId: 'billing',
    deserializers: stringDeserializers,
    heartbeatInterval: 50,
    maxWaitTime: 50,
    retryDelay: 20,
    autocommit: false
  })
})

afterEach(async () => {
  await consumer.close(true)
  await broker.stop()
})

function consume () {
  return consumer.consume({ topics: ['orders'], mode: 'earliest' })
}

// A silent member is removed when its session ends: a minute, which passes at once here.
test('a consumer that was removed joins again', async () => {
  await consume()
  const again = once(consumer, 'consumer:group:join')

  await broker.post('time/advance', { seconds: 61, silent: ['shop'] })

  await again
  const { rounds } = await broker.post('groups/billing/wait', { stable: true, members: 1 })
  assert.ok(rounds.some((round) => round.removed.includes('shop')))
})

// The coordinator has moved when the consumer commits: the commit must be tried again.
test('a commit survives a failover', async () => {
  await broker.post('faults',
    { effect: { name: 'error', code: 'NOT_COORDINATOR' }, api: 'OffsetCommit', times: 1 })
  await broker.post('topics/orders/records', { records: [{ value: 'a' }] })

  const stream = await consume()
  const [message] = await once(stream, 'data')
  await message.commit()

  const { committed } = await broker.get('groups/billing/committed')
  assert.deepStrictEqual(committed, [{ topic: 'orders', partition: 0, offset: 1 }])
  const { faults } = await broker.get('faults')
  assert.strictEqual(faults[0].hits, 1)
})
