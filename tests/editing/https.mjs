// The official client over HTTPS, and many live readers on one connection of HTTP/2.
//
//   node https.mjs --binary PATH
//
// The server is `headwater dev --tls`. Node reads the certificates that it trusts once, when it
// starts, so this script starts itself again as soon as there is one.

import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { connect } from "node:http2"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { parseArgs } from "node:util"
import { DurableStream, stream } from "@durable-streams/client"

const LIMIT_MS = 60_000
const READERS = 50
const MESSAGES = 20

setTimeout(() => {
  console.error(`not finished after ${LIMIT_MS} ms`)
  process.exit(1)
}, LIMIT_MS).unref()

if (process.env.HEADWATER_URL) {
  await client(`${process.env.HEADWATER_URL}/demo`)
} else {
  await serve(parseArgs({ options: { binary: { type: "string" } } }).values.binary)
}

async function serve(binary) {
  const home = mkdtempSync(join(tmpdir(), "headwater-https-"))
  const args = ["dev", "--tls", "--listen", "127.0.0.1:0", "--data-dir", join(home, "data")]
  const server = spawn(binary, args, { stdio: ["ignore", "pipe", "ignore"] })
  const ended = once(server, "exit")
  process.once("exit", () => server.kill("SIGKILL"))
  const [line] = await once(createInterface({ input: server.stdout }), "line")
  const url = /^listening on (https:\/\/127\.0\.0\.1:\d+)$/.exec(line)?.[1]
  assert(url, `unexpected first line ${JSON.stringify(line)}`)
  const ca = join(home, "data-tls", "cert.pem")
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: ca, HEADWATER_URL: url }
  const [code] = await once(spawn(process.execPath, process.argv.slice(1), { env, stdio: "inherit" }), "exit")
  if (code === 0) await multiplexed(url, readFileSync(ca))
  server.kill("SIGTERM")
  assert.deepEqual(await ended, [0, null], "SIGTERM ends it with exit code 0")
  rmSync(home, { recursive: true })
  process.exitCode = code
}

/** Creates, appends, tails live, closes, and reads from the start. */
async function client(bucket) {
  const url = `${bucket}/https-${crypto.randomUUID()}`
  const handle = await DurableStream.create({ url, contentType: "application/json" })
  const live = await handle.stream({ offset: "-1", live: "sse" })
  const seen = []
  const all = new Promise((resolve) => {
    live.subscribeJson((batch) => {
      seen.push(...batch.items)
      if (seen.length === MESSAGES) resolve()
    })
  })
  for (let number = 0; number < MESSAGES; number++) await handle.append(JSON.stringify({ number }))
  await all
  await handle.close()
  const history = await (await stream({ url, live: false })).json()
  assert.deepEqual(history, seen)
  assert.deepEqual(history.map(({ number }) => number), [...Array(MESSAGES).keys()])
  console.log(`https: the official client wrote, tailed and read ${MESSAGES} messages`)
}

async function multiplexed(url, ca) {
  const session = connect(url, { ca })
  const path = "/demo/multiplexed"
  const type = { "content-type": "text/plain" }
  assert.equal(await status(session, { ":method": "PUT", ":path": path, ...type }), 201)
  const readers = Array.from({ length: READERS }, () => {
    const request = session.request({ ":path": `${path}?offset=-1&live=sse` })
    request.setEncoding("utf8")
    const reader = { text: "", request }
    request.on("data", (piece) => (reader.text += piece))
    return reader
  })
  await every(readers, (reader) => reader.text.includes("upToDate"))
  const append = { ":method": "POST", ":path": path, ...type }
  assert.equal(await status(session, append, "to all of you"), 204)
  await every(readers, (reader) => reader.text.includes("to all of you"))
  session.destroy()
  console.log(`https: ${READERS} live readers on one connection of HTTP/2 saw an append`)
}

async function status(session, headers, body = "") {
  const request = session.request(headers)
  request.end(body)
  const [answer] = await once(request, "response")
  request.resume()
  return answer[":status"]
}

async function every(readers, holds) {
  for (const reader of readers) {
    while (!holds(reader)) await once(reader.request, "data")
  }
}
