// One append per transaction, in order, several in flight, exactly once.

import http from "node:http"
import { DurableStream, IdempotentProducer } from "@durable-streams/client"

/** Creates a stream. */
export function createStream(url, contentType) {
  return DurableStream.create({ url, contentType })
}

/**
 * The official idempotent producer, with batching off so that each append is one request.
 *
 * Requests overtake each other on different connections. The server then refuses the later one and
 * names the number that it expects; the producer sends it again in its turn.
 */
export class Writer {
  #producer
  #error

  constructor(stream, id) {
    this.#producer = new IdempotentProducer(stream, id, {
      // A batch is sent once it holds this many bytes: always at once.
      maxBatchBytes: 1,
      fetch: lightFetch,
      // The only place where the producer reports a request that failed.
      onError: (error) => (this.#error ??= error),
    })
  }

  append(message) {
    if (this.#error) throw this.#error
    this.#producer.append(message)
  }

  /** Waits until everything is durable; returns the offset behind the last append. */
  async flush() {
    await this.#producer.flush()
    if (this.#error) throw this.#error
    return this.#producer.lastSuccessfulOffset
  }
}

const agent = new http.Agent({ keepAlive: true })

/**
 * `fetch` for small requests and answers. The built-in one costs half a millisecond a call, which
 * for 60,000 appends is most of the test's time. It also keeps a connection busy whose answer was
 * not read, and the producer does not read refusals.
 */
function lightFetch(url, { method, headers, body }) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method, headers, agent })
    request.on("error", reject)
    request.on("response", (answer) => {
      const chunks = []
      answer.on("data", (chunk) => chunks.push(chunk))
      answer.on("error", reject)
      answer.on("end", () => {
        const content = chunks.length > 0 ? Buffer.concat(chunks) : null
        resolve(new Response(content, { status: answer.statusCode, headers: answer.headers }))
      })
    })
    request.end(body)
  })
}
