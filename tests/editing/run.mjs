// Replays recorded editing sessions through a server and compares what everyone ends up with.
//
//   node run.mjs (--binary PATH | --url URL)

import { parseArgs } from "node:util"
import { ensureBucket, openServer } from "../support/server.mjs"
import { replayConcurrent } from "./concurrent.mjs"
import { replaySequential } from "./sequential.mjs"

const BUCKET = "editing"
const LIMIT_MS = 300_000

const { values: options } = parseArgs({
  options: { url: { type: "string" }, binary: { type: "string" } },
})
setTimeout(() => {
  console.error(`not finished after ${LIMIT_MS} ms`)
  process.exit(1)
}, LIMIT_MS).unref()

const server = await openServer(options)
const root = `${server.url}/${BUCKET}`
const ds = `${server.url}/ds/${BUCKET}`
await ensureBucket(root)

const tests = [
  ["one writer, retention moved by hand (root)", () => replaySequential(root, false)],
  ["one writer, publish discards history (/ds)", () => replaySequential(ds, true)],
  ["two concurrent writers (root)", () => replayConcurrent(root)],
]
let passed = 0
for (const [name, test] of tests) {
  const start = performance.now()
  try {
    const facts = await test()
    passed++
    console.log(`ok      ${name}, ${seconds(start)} s: ${facts}`)
  } catch (error) {
    console.log(`FAILED  ${name}, ${seconds(start)} s`)
    console.log(error)
  }
}
await server.stop()
console.log(`editing: ${passed} passed, ${tests.length - passed} failed`)
process.exitCode = passed === tests.length ? 0 : 1

function seconds(start) {
  return ((performance.now() - start) / 1000).toFixed(1)
}
