// Two people's session on one stream, as updates of Loro documents.
//
// The claim: two writers that append at the same time, each seeing the other only through the
// stream, and every reader, whichever way it reads, end with the text that the recording ends with.
//
// The recording says for each transaction which others its author had seen. So each author is
// played live: it tails the stream, holds back what the other wrote until the recorded moment,
// imports exactly that much, makes its own edit, and appends the update. An author's transactions
// are in order and build on each other, so what an author has seen is always all of its own and a
// prefix of the other's: one growing document for each is enough.

import assert from "node:assert/strict"
import { stream } from "@durable-streams/client"
import { LoroDoc } from "loro-crdt"
import { bootstrap } from "../../examples/collab/bootstrap.mjs"
import { frame, Unframer } from "../../examples/collab/framing.mjs"
import { loadTrace } from "./trace.mjs"
import { createStream, Writer } from "./writer.mjs"

const SNAPSHOT_EVERY = 5000
// Loro imports many updates at once much faster than one by one.
const IMPORT_BATCH = 500

/** @param {string} bucketUrl on the surface to be tested */
export async function replayConcurrent(bucketUrl) {
  const trace = loadTrace("friendsforever")
  const url = `${bucketUrl}/friends-${crypto.randomUUID()}`
  const handle = await createStream(url, "application/octet-stream")
  const seen = whatWasSeen(trace.txns)
  const authors = [0, 1].map((agent) => new Author(handle, agent, trace.txns, seen))
  const archivist = new Archivist(handle)
  const tails = [...authors, archivist].map((one) => one.tail())

  // Should a tail break, its author would wait for ever: then that error ends the race.
  await Promise.race([Promise.all(authors.map((one) => one.write())), failureOf(tails)])
  await handle.close()
  await Promise.all(tails)

  const updates = trace.txns.length
  const replicas = {
    "author 0": authors[0].finish(),
    "author 1": authors[1].finish(),
    "live reader": archivist.finish(),
    "newcomer by catch-up": await readEverything(url, updates),
    "newcomer by bootstrap": await readFromSnapshot(url),
  }
  for (const [who, text] of Object.entries(replicas)) assert.equal(text, trace.endContent, who)
  return `${updates} appends by 2 writers, ${archivist.published} snapshots, `
    + `${Object.keys(replicas).length} equal replicas`
}

/** For each transaction, how many transactions of each agent its author had seen. */
function whatWasSeen(txns) {
  const after = []
  const before = txns.map(({ parents, agent }) => {
    const seen = [0, 1].map((a) => Math.max(0, ...parents.map((parent) => after[parent][a])))
    after.push(seen.map((count, a) => (a === agent ? count + 1 : count)))
    return seen
  })
  return before
}

/** Message: the transaction's number (u32 big-endian), then the Loro update, in one frame. */
function encode(number, update) {
  const message = new Uint8Array(4 + update.length)
  new DataView(message.buffer).setUint32(0, number)
  message.set(update, 4)
  return frame(message)
}

function decode(message) {
  const number = new DataView(message.buffer, message.byteOffset).getUint32(0)
  return { number, update: message.subarray(4) }
}

/** Follows the stream to its end and hands over what arrives, with the offset behind it. */
async function follow(handle, onMessages) {
  const unframer = new Unframer()
  const session = await handle.stream({ offset: "-1", live: "sse" })
  session.subscribeBytes((chunk) => onMessages(unframer.push(chunk.data).map(decode), chunk.offset))
  await session.closed
  assert.ok(session.streamClosed, "the live session ended before the stream")
}

class Author {
  #doc = new LoroDoc()
  #fromOther = []
  #imported = 0
  #wake = () => {}

  constructor(handle, agent, txns, seen) {
    this.handle = handle
    this.agent = agent
    this.other = 1 - agent
    this.txns = txns
    this.seen = seen
    this.writer = new Writer(handle, `author-${agent}`)
    this.#doc.setPeerId(BigInt(agent + 1))
  }

  tail() {
    return follow(this.handle, (messages) => {
      for (const { number, update } of messages) {
        if (this.txns[number].agent === this.other) this.#fromOther.push(update)
      }
      this.#wake()
    })
  }

  async write() {
    for (const [number, { agent, patches }] of this.txns.entries()) {
      if (agent !== this.agent) continue
      await this.#see(this.seen[number][this.other])
      this.writer.append(encode(number, this.#edit(patches)))
    }
    await this.writer.flush()
  }

  /** Everything from both, at the end. */
  finish() {
    this.#import(this.#fromOther.length)
    return textOf(this.#doc).toString()
  }

  /** Waits for the other's first `count` updates and imports those, no more. */
  async #see(count) {
    while (this.#fromOther.length < count) {
      await new Promise((resolve) => (this.#wake = resolve))
    }
    this.#import(count)
  }

  #import(count) {
    if (count > this.#imported) this.#doc.importBatch(this.#fromOther.slice(this.#imported, count))
    this.#imported = count
  }

  #edit(patches) {
    const from = this.#doc.version()
    const text = textOf(this.#doc)
    for (const [at, deleted, inserted] of patches) {
      // Loro counts UTF-16 units here, the recording counts code points.
      const start = text.convertPos(at, "unicode", "utf16")
      const end = text.convertPos(at + deleted, "unicode", "utf16")
      if (end > start) text.delete(start, end - start)
      if (inserted) text.insert(start, inserted)
    }
    this.#doc.commit()
    return this.#doc.export({ mode: "update", from })
  }
}

/** A reader that imports everything as it comes, and publishes snapshots. */
class Archivist {
  published = 0
  #doc = new LoroDoc()
  #waiting = []
  #read = 0

  constructor(handle) {
    this.handle = handle
  }

  tail() {
    return follow(this.handle, async (messages, offset) => {
      for (const { update } of messages) this.#waiting.push(update)
      if (this.#waiting.length >= IMPORT_BATCH) this.#import()
      this.#read += messages.length
      if (this.#read >= SNAPSHOT_EVERY * (this.published + 1)) await this.#publish(offset)
    })
  }

  finish() {
    this.#import()
    return textOf(this.#doc).toString()
  }

  #import() {
    this.#doc.importBatch(this.#waiting.splice(0))
  }

  /** A snapshot holds all that lies below its offset. Authors hold updates back: not their job. */
  async #publish(offset) {
    this.#import()
    const answer = await fetch(`${this.handle.url}/snapshot/${offset}`, {
      method: "PUT",
      body: this.#doc.export({ mode: "snapshot" }),
    })
    assert.equal(answer.status, 204, `publish: ${await answer.text()}`)
    this.published++
  }
}

/** A newcomer that reads the whole history. */
async function readEverything(url, expected) {
  const history = await (await stream({ url, live: false })).body()
  const updates = new Unframer().push(history).map((message) => decode(message).update)
  assert.equal(updates.length, expected, "updates in the whole history")
  const doc = new LoroDoc()
  doc.importBatch(updates)
  return textOf(doc).toString()
}

/** A newcomer that starts from the newest snapshot. */
async function readFromSnapshot(url) {
  const start = await bootstrap(url)
  assert.ok(start.snapshot, "there is a snapshot")
  const unframer = new Unframer()
  // Batching is off, so a message is one update and a bootstrap part is one message.
  const updates = start.messages.map((message) => {
    const payloads = unframer.push(message)
    assert.equal(payloads.length, 1, "updates in one bootstrap part")
    return decode(payloads[0]).update
  })
  assert.ok(updates.length > 0, "there is something after the snapshot")
  const doc = new LoroDoc()
  doc.importBatch([start.snapshot, ...updates])
  return textOf(doc).toString()
}

function textOf(doc) {
  return doc.getText("text")
}

/** Rejects as soon as one of the promises does; never resolves. */
function failureOf(promises) {
  return new Promise((_, reject) => promises.forEach((promise) => promise.catch(reject)))
}
