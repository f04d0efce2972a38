// A Groupkeeper process, and what its control port does: see docs/testing-control.md.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

export async function startBroker (...options) {
  const program = process.env.GROUPKEEPER ?? 'groupkeeper'
  const command = ['serve', '--dev', '--listen', '127.0.0.1:0', '--http', 'off']
  const child = spawn(program, [...command, '--control', '127.0.0.1:0', ...options],
    { stdio: ['ignore', 'pipe', 'ignore'] })
  const [line] = await once(createInterface({ input: child.stdout }), 'line')
  const [, bootstrap, control] = /kafka=(\S+) .*control=(\S+)/.exec(line)

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
      await once(child, 'exit')
    }
  }
}
