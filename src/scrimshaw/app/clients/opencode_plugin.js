// Scrimshaw for OpenCode: tells the hook command what happens and hands its answer to the model.
// It must never disturb the client: every call is bounded in time, and every failure reads as "nothing to say".
import { spawn } from "node:child_process"

const COMMAND = ["scrimshaw-hook", "opencode"] // `scrimshaw setup opencode` writes the full path here
const PATIENCE_MS = 5000 // the longest a prompt waits for memory
const LONGEST_TEXT = 100_000 // characters of one text that are sent
const LONGEST_SAID = 8_000 // characters of a text of the agent
const MOST_TEXTS = 300 // texts of the agent that are kept until it rests
const NEVER_RAN = /^The user (rejected permission|dismissed this question|has specified a rule)/

const cut = (_key, value) => (typeof value === "string" ? value.slice(0, LONGEST_TEXT) : value)

function contextOf(printed) {
  try {
    return JSON.parse(printed).context || ""
  } catch {
    return ""
  }
}

function tell(payload) {
  return new Promise((resolve) => {
    try {
      const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"], windowsHide: true })
      let printed = ""
      const done = () => {
        clearTimeout(timer)
        resolve(contextOf(printed))
      }
      const timer = setTimeout(() => {
        child.kill()
        done()
      }, PATIENCE_MS)
      child.on("error", done)
      child.on("close", done)
      child.stdin.on("error", () => {})
      child.stdout.on("data", (part) => {
        printed += part
      })
      child.stdin.end(JSON.stringify(payload, cut))
    } catch {
      resolve("")
    }
  })
}

const quietly = (hook) => async (input, output) => {
  try {
    await hook(input, output)
  } catch {
    // The session goes on without memory.
  }
}

export const ScrimshawPlugin = async ({ directory }) => {
  const sessions = new Map()

  const stateOf = (id) => {
    if (!sessions.has(id)) sessions.set(id, { parent: "", start: null, prompt: null, texts: [] })
    return sessions.get(id)
  }

  const report = (event, input, output = {}, texts = []) => {
    const { parent, tokens, limit, model } = stateOf(input.sessionID)
    return tell({ event, timestamp: Date.now(), directory, parent, tokens, limit, model, input, output, texts })
  }

  const takeTexts = (id) => {
    const state = stateOf(id)
    const texts = state.texts
    state.texts = []
    return texts
  }

  const begin = (event, id, properties = {}) => {
    const state = stateOf(id)
    state.parent = properties.info?.parentID || state.parent
    state.start = report(event, { ...properties, sessionID: id })
  }

  const onEvent = {
    "session.created": (told) => begin("session.created", told.sessionID || told.info.id, told),
    "session.compacted": (told) => begin("session.compacted", told.sessionID),
    "session.idle": (told) => {
      report("session.idle", told, {}, takeTexts(told.sessionID))
    },
    "session.deleted": (told) => {
      const id = told.sessionID || told.info.id
      report("session.deleted", { sessionID: id })
      sessions.delete(id)
    },
    "message.updated": ({ info }) => {
      if (info.role !== "assistant" || !(info.tokens?.input > 0)) return
      Object.assign(stateOf(info.sessionID), { tokens: info.tokens, model: info.modelID })
    },
    "message.part.updated": ({ part }) => {
      if (part.type !== "tool" || part.state?.status !== "error" || NEVER_RAN.test(part.state.error)) return
      const { sessionID, tool, callID, state } = part
      const input = { sessionID, tool, callID, args: state.input }
      report("tool.error", input, { error: state.error, metadata: state.metadata }, takeTexts(sessionID))
    },
  }

  return {
    event: quietly(async ({ event }) => onEvent[event.type]?.(event.properties)),

    "chat.message": quietly(async (input, output) => {
      const state = stateOf(input.sessionID)
      if (!state.start) begin("session.resumed", input.sessionID)
      state.prompt = report("chat.message", input, { message: output.message, parts: output.parts })
    }),

    "tool.execute.after": quietly(async (input, output) => {
      report("tool.execute.after", input, output, takeTexts(input.sessionID)) // what was said before the call
    }),

    "experimental.text.complete": quietly(async (input, output) => {
      const state = stateOf(input.sessionID)
      state.texts = [...state.texts, output.text.slice(0, LONGEST_SAID)].slice(-MOST_TEXTS)
    }),

    "experimental.session.compacting": quietly(async (input) => {
      report("experimental.session.compacting", input, {}, stateOf(input.sessionID).texts)
    }),

    "experimental.chat.system.transform": quietly(async (input, output) => {
      if (!input.sessionID || output.system[0]?.startsWith("You are a title generator")) return
      const state = stateOf(input.sessionID)
      state.limit = input.model?.limit?.context
      const known = await Promise.all([state.start, state.prompt])
      output.system.push(...known.filter(Boolean))
    }),
  }
}
