// A Groupkeeper process, and what its control port does: see docs/testing-control.md.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

export async function startBroker (...options) {
  const program = process.env.GROUPKEEPER ?? 'groupkeeper'
  const command = ['serve', '--dev', '--listen', '127.0.0.1:0', '--http', 'off']
  const child = spawn(program, [...command, '--control', '127.0.0.1:0', ...options],
    { stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text) => { log = (log + text).slice(-10_000) })
  const ended = once(child, 'close').then(() => '') // rejected if there is no such program
  const lines = createInterface({ input: child.stdout })
  const line = await Promise.race([once(lines, 'line').then(([first]) => first), ended])
  const ready = /kafka=(\S+) .*control=(\S+)/.exec(line)
  if (!ready) {
    child.kill()
    await ended
    throw new Error(`the broker is not ready: ${line}${log}`)
  }
  const [, bootstrap, control] = ready

  async function ask (method, path, body) {
    const answer = await fetch(`http://${control}/control/v1/${path}`, {
      method,
      headers: { 'Content-Type': 'application/json' },
      body: body && JSON.stringify(body)
    })
    const found = await answer.json()
    if (!answer.ok) throw new Error(found.error)
    return found
  }

  return {
    bootstrap,
    get: (path) => ask('GET', path),
    post: (path, body = {}) => ask('POST', path, body),
    async stop () {
      child.kill()
      await ended
    }
  }
}
