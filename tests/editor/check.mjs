// Opens specs in yaml-language-server as an editor does, and holds it to what it completes and
// underlines. The modeline in each document names the schema on file; no settings are needed.
//   node check.mjs PATH-OF-THE-SERVER
import { spawn } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const PATIENCE_MS = 60_000
const server = spawn(process.execPath, [process.argv[2], '--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] })

// The base protocol: Content-Length, a blank line, JSON.
let buffer = Buffer.alloc(0)
let lastId = 0
const answers = new Map()
const diagnostics = new Map()
const waiting = new Map()

server.stdout.on('data', (bytes) => {
  buffer = Buffer.concat([buffer, bytes])
  for (;;) {
    const end = buffer.indexOf('\r\n\r\n')
    if (end < 0) return
    const length = Number(/content-length: (\d+)/i.exec(buffer.subarray(0, end).toString())[1])
    if (buffer.length < end + 4 + length) return
    const message = JSON.parse(buffer.subarray(end + 4, end + 4 + length).toString())
    buffer = buffer.subarray(end + 4 + length)
    heard(message)
  }
})
server.on('exit', (code) => fail(`the server ended with ${code}`))
setTimeout(() => fail(`no end within ${PATIENCE_MS / 1000} s`), PATIENCE_MS).unref()

function fail(why) {
  console.error(`failed: ${why}`)
  server.removeAllListeners('exit')
  server.kill()
  process.exit(1)
}

function send(message) {
  const text = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }))
  server.stdin.write(`Content-Length: ${text.length}\r\n\r\n`)
  server.stdin.write(text)
}

function heard(message) {
  if (message.method === 'textDocument/publishDiagnostics') {
    diagnostics.set(message.params.uri, message.params.diagnostics)
    waiting.get(message.params.uri)?.(message.params.diagnostics)
  } else if (message.method && message.id !== undefined) {
    // What the server asks for, it gets as "nothing special".
    const items = message.params?.items
    send({ id: message.id, result: items ? items.map(() => null) : null })
  } else if (message.id !== undefined) {
    answers.get(message.id)?.(message)
    answers.delete(message.id)
  }
}

function ask(method, params) {
  const id = ++lastId
  const answer = new Promise((done) => answers.set(id, done))
  send({ id, method, params })
  return answer.then((message) => {
    if (message.error) fail(`${method}: ${JSON.stringify(message.error)}`)
    return message.result
  })
}

const folder = resolve('specs')
const modeline = '# yaml-language-server: $schema=../schema/relayproof.schema.json\n'

// A document that lies beside the specs, as far as the server knows.
async function open(name, text) {
  const uri = pathToFileURL(resolve(folder, name)).href
  const seen = new Promise((done) => waiting.set(uri, done))
  send({
    method: 'textDocument/didOpen',
    params: { textDocument: { uri, languageId: 'yaml', version: 1, text } },
  })
  return { uri, text, problems: await seen }
}

// Labels offered where `▮` stands.
async function complete(name, marked) {
  const text = modeline + marked
  const at = text.indexOf('▮')
  const document = await open(name, text.replace('▮', ''))
  const before = text.slice(0, at).split('\n')
  const position = { line: before.length - 1, character: before.at(-1).length }
  const result = await ask('textDocument/completion', { textDocument: { uri: document.uri }, position })
  return (result.items ?? result).map((item) => item.label)
}

function offers(what, labels, wanted, unwanted = []) {
  for (const label of wanted) {
    if (!labels.includes(label)) fail(`${what}: ${label} is not offered: ${JSON.stringify(labels)}`)
  }
  for (const label of unwanted) {
    if (labels.includes(label)) fail(`${what}: ${label} is offered`)
  }
  console.log(`ok  ${what}: ${wanted.join(', ')}`)
}

await ask('initialize', {
  processId: process.pid,
  rootUri: pathToFileURL(resolve('.')).href,
  workspaceFolders: null,
  capabilities: {
    textDocument: { completion: { completionItem: { documentationFormat: ['markdown'] } }, hover: {} },
    workspace: { configuration: true },
  },
})
send({ method: 'initialized', params: {} })

// One: keys and closed sets under a relay.
const relay = 'relayproof: 1\nrelays:\n  - name: alpha\n'
offers('keys of a relay', await complete('one-a.yaml', `${relay}    ▮\nslos: [ttft.p95 < 1s]\n`), [
  'base_url', 'api_key', 'models', 'protocol', 'timeouts', 'simulate',
], ['slos', 'sampling', 'name'])
offers('protocols', await complete('one-b.yaml', `${relay}    protocol: ▮\n`), [
  'openai-chat', 'openai-responses', 'anthropic-messages', 'gemini',
])
// Two: keys of the document, and words in `judge`.
offers('keys of a spec', await complete('two-a.yaml', 'relayproof: 1\n▮\n'), [
  'relays', 'slos', 'sampling', 'judge', 'profiles',
], ['relayproof', 'base_url'])
offers('methods', await complete('two-b.yaml', 'relayproof: 1\njudge:\n  method: ▮\n'), [
  'sequential', 'wilson', 'exact',
])
// Three: objectives.
const objectives = await complete('three.yaml', `${relay}slos:\n  - ▮\n`)
offers('objectives', objectives, [
  'ttft.p95 < 1.5s', 'tps.p05 >= 20/s', 'parse_success >= 99%', 'interruption < 1%', 'expect',
])

const hover = await open('hover.yaml', `${modeline}relayproof: 1\nsampling:\n  rate: 120/min\n`)
const shown = await ask('textDocument/hover', { textDocument: { uri: hover.uri }, position: { line: 3, character: 4 } })
if (!JSON.stringify(shown).includes('never waiting for an answer')) fail(`hover says ${JSON.stringify(shown)}`)
console.log('ok  hover: what a key means')

// Mistakes, each at its line.
const mistakes = [
  ['unknown key', 'relayproof: 1\nrelays:\n  - name: a\n    modles: [m]\nslos: [ttft.p95 < 1s]\n', 4, /modles/],
  ['wrong type', 'relayproof: 1\nrelays:\n  - { name: a, models: m }\nslos: [ttft.p95 < 1s]\n', 3, /type/i],
  ['unknown word', 'relayproof: 1\nrelays:\n  - { name: a }\njudge:\n  method: wilsn\nslos: [ttft.p95 < 1s]\n', 5, /wilson/],
  ['bad objective', 'relayproof: 1\nrelays:\n  - { name: a }\nslos:\n  - ttft.p95 < 1s\n  - ttft < 1.5s\n', 6, /METRIC/],
  ['missing unit', 'relayproof: 1\nrelays:\n  - { name: a }\nslos:\n  - parse_success >= 99\n', 5, /METRIC/],
  ['bad duration', 'relayproof: 1\nrelays:\n  - name: a\n    timeouts:\n      idle: 10\nslos: [ttft.p95 < 1s]\n', 5, /string|duration/i],
  ['literal key', 'relayproof: 1\nrelays:\n  - name: a\n    api_key: sk-123\nslos: [ttft.p95 < 1s]\n', 4, /map relays/],
  ['missing key', 'relayproof: 1\nrelays:\n  - { name: a }\n', 1, /slos/],
]
for (const [what, text, line, words] of mistakes) {
  const { problems } = await open(`${what.replaceAll(' ', '-')}.yaml`, modeline + text)
  const hit = problems.find((problem) => words.test(problem.message) && problem.range.start.line === line)
  if (!hit) {
    const said = problems.map((problem) => `${problem.range.start.line}: ${problem.message}`)
    fail(`${what}: expected ${words} in line ${line} (from 0), got\n${said.join('\n')}`)
  }
  console.log(`ok  ${what}: ${hit.message.split('\n')[0]}`)
}

// Every spec of the repository is clean, placeholders included.
for (const file of readdirSync(folder).filter((name) => name.endsWith('.yaml'))) {
  const text = readFileSync(resolve(folder, file), 'utf8')
  if (!text.startsWith(modeline)) fail(`specs/${file} does not begin with the modeline`)
  const { problems } = await open(file, text)
  if (problems.length) fail(`specs/${file}: ${JSON.stringify(problems)}`)
}
const everything = readFileSync('tests/data/specs/good/everything.yaml', 'utf8')
const { problems } = await open('everything.yaml', modeline + everything)
if (problems.length) fail(`everything.yaml: ${JSON.stringify(problems, null, 1)}`)
console.log('ok  every spec of the repository is clean')

server.removeAllListeners('exit')
server.kill()
process.exit(0)
