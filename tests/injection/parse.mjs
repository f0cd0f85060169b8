// Reads answers from standard input as a list of base64 and says how `eventsource-parser`
// understands each, all at once and byte by byte.

import { createParser } from "eventsource-parser"
import { stdin, stdout } from "node:process"
import { text } from "node:stream/consumers"

/** The events of `raw`, fed in pieces of `size` bytes. */
function events(raw, size) {
  const found = []
  const parser = createParser({
    onEvent: ({ event, data, id }) => found.push([event ?? "message", data, id ?? null]),
    onRetry: (interval) => found.push(["retry", String(interval), null]),
    onError: (error) => found.push(["error", error.message, null]),
  })
  const decoder = new TextDecoder()
  for (let at = 0; at < raw.length; at += size) {
    parser.feed(decoder.decode(raw.subarray(at, at + size), { stream: true }))
  }
  return found
}

const answers = JSON.parse(await text(stdin)).map((raw) => Buffer.from(raw, "base64"))
const parsed = answers.map((raw) => [events(raw, raw.length || 1), events(raw, 1)])
stdout.write(JSON.stringify(parsed))
