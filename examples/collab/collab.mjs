// Two people write one text at the same time; a third joins late. All three end with one text.
//
//   node collab.mjs --url URL        against a running server
//   node collab.mjs --binary PATH    starts one on a temporary directory
//
// Every participant owns a Loro document and talks to the others only through one stream: each
// commit is one append, and whoever tails the stream imports what the others wrote. The server
// knows nothing about text or CRDTs.

import { parseArgs } from "node:util"
import { DurableStream } from "@durable-streams/client"
import { LoroDoc } from "loro-crdt"
import { bootstrap } from "./bootstrap.mjs"
import { frame, Unframer } from "./framing.mjs"

const EDITS = 200
const LIMIT_MS = 30_000

class Participant {
  doc = new LoroDoc()
  #imported = 0
  #sent = []
  #waiters = []

  /** @param {string} url of the shared stream */
  constructor(name, url) {
    this.name = name
    this.url = url
    // Batching would merge appends that overlap; without it each commit stays one message.
    this.stream = new DurableStream({
      url,
      contentType: "application/octet-stream",
      batching: false,
    })
    this.doc.subscribeLocalUpdates((update) => this.#sent.push(this.#append(frame(update))))
  }

  get text() {
    return this.doc.getText("text").toString()
  }

  get imported() {
    return this.#imported
  }

  /** Catches up from the newest snapshot and what came after it, then follows the stream. */
  async join() {
    const start = await bootstrap(this.url)
    if (start.snapshot) this.doc.import(start.snapshot)
    const unframer = new Unframer()
    for (const message of start.messages) this.#import(unframer.push(message))
    this.offset = start.nextOffset

    this.session = await this.stream.stream({ offset: start.nextOffset, live: "sse" })
    // A session that dies fails whoever waits for it; see reach().
    this.session.closed.catch((error) => this.#wake(error))
    this.session.subscribeBytes((chunk) => {
      this.#import(unframer.push(chunk.data))
      this.offset = chunk.offset
      this.#wake()
    })
    return start
  }

  /** Types one character at a random place, or deletes one now and then. */
  edit(random) {
    const text = this.doc.getText("text")
    const at = Math.floor(random() * (text.length + 1))
    if (at < text.length && random() < 0.2) text.delete(at, 1)
    else text.insert(at, String.fromCharCode(97 + Math.floor(random() * 26)))
    this.doc.commit()
  }

  /** Publishes the document as it is at the offset that this participant has read up to. */
  async publishSnapshot() {
    // Own edits that have not come back yet are in it too. That is fine: a CRDT ignores what it
    // has already seen. What must not happen is the opposite, so the offset is taken first.
    const offset = this.offset
    const body = this.doc.export({ mode: "snapshot" })
    const answer = await fetch(`${this.url}/snapshot/${offset}`, { method: "PUT", body })
    if (answer.status !== 204) throw new Error(`publishing answered ${answer.status}`)
    return offset
  }

  /** Waits until everything this participant wrote is durable. */
  async flushed() {
    while (this.#sent.length > 0) await Promise.all(this.#sent.splice(0))
  }

  /** Waits until this participant has read up to `offset`. Offsets compare as strings. */
  async reach(offset) {
    while (this.offset < offset) {
      await new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }))
    }
  }

  leave() {
    this.session.cancel()
  }

  /** Appends one after the other: a later edit of one author builds on the earlier ones. */
  #append(bytes) {
    this.last = (this.last ?? Promise.resolve()).then(() => this.stream.append(bytes))
    return this.last
  }

  #import(updates) {
    if (updates.length > 0) this.doc.importBatch(updates)
    this.#imported += updates.length
  }

  #wake(error) {
    for (const { resolve, reject } of this.#waiters.splice(0)) error ? reject(error) : resolve()
  }
}

/** A small repeatable generator (mulberry32), so that two runs type the same. */
function randomFrom(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Makes `count` edits, waiting now and then so that the other's edits come in between. */
async function write(who, seed, count) {
  const random = randomFrom(seed)
  for (let i = 0; i < count; i++) {
    who.edit(random)
    if (random() < 0.3) await who.flushed()
  }
  await who.flushed()
}

async function collaborate(base) {
  // 409: the bucket is there from an earlier run.
  const bucket = await fetch(`${base}/demo`, { method: "PUT" })
  if (![201, 409].includes(bucket.status)) throw new Error(`PUT /demo: ${bucket.status}`)
  const url = `${base}/demo/${crypto.randomUUID()}`
  await DurableStream.create({ url, contentType: "application/octet-stream" })

  const [ada, ben, cleo] = ["Ada", "Ben", "Cleo"].map((name) => new Participant(name, url))
  await Promise.all([ada.join(), ben.join()])
  await Promise.all([write(ada, 1, EDITS / 2), write(ben, 2, EDITS / 2)])
  await ada.reach((await ada.stream.head()).offset)
  const published = await ada.publishSnapshot()

  // Cleo arrives while the others go on writing.
  const writing = Promise.all([write(ada, 3, EDITS / 2), write(ben, 4, EDITS / 2)])
  const start = await cleo.join()
  await writing

  const { offset: tail } = await ada.stream.head()
  const everyone = [ada, ben, cleo]
  await Promise.all(everyone.map((who) => who.reach(tail)))
  for (const who of everyone) who.leave()

  console.log(`snapshot at ${published}; Cleo started from ${start.snapshotOffset}`)
  for (const who of everyone) {
    console.log(`${who.name}: ${who.text.length} characters, ${who.imported} updates read`)
  }
  const late = start.snapshotOffset === published && cleo.imported === EDITS
  if (!late) throw new Error("the late joiner did not start from the snapshot")
  if (ada.text.length === 0) throw new Error("nothing was written")
  if (!everyone.every((who) => who.text === ada.text)) throw new Error("the texts differ")
  console.log("all texts are equal")
}

const { values: options } = parseArgs({
  options: { url: { type: "string" }, binary: { type: "string" } },
})
let server = { url: options.url?.replace(/\/+$/, ""), stop: async () => {} }
if (options.binary) {
  // Only for the headless run in the tests; the example itself needs nothing but a URL.
  const { openServer } = await import("../../tests/support/server.mjs")
  server = await openServer(options)
}
if (!server.url) throw new Error("give --url URL or --binary PATH")
setTimeout(() => {
  console.error(`not finished after ${LIMIT_MS} ms`)
  process.exit(1)
}, LIMIT_MS).unref()
await collaborate(server.url)
await server.stop()
