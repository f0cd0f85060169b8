// Starts the Node reference server with its file store.
//   node node-server.mjs FOLDER_WITH_NODE_MODULES PORT DATA_DIR
import { createRequire } from "node:module"
import { resolve } from "node:path"

const [packages, port, dataDir] = process.argv.slice(2)
const require = createRequire(resolve(packages, "index.js"))
const { DurableStreamTestServer } = require("@durable-streams/server")

const server = new DurableStreamTestServer({ port: Number(port), host: "127.0.0.1", dataDir })
await server.start()
process.on("SIGTERM", async () => {
  await server.stop()
  process.exit(0)
})
