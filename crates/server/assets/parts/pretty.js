// JSON laid out without being understood: numbers, keys and duplicates stay as they were written.

const WORDS = /^(true|false|null)/
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/
const DEPTH_MAX = 200

/** A JSON text that is wrong, and where: `line` and `column` from 1, `at` from 0. */
export class JsonError extends Error {
  constructor(text, at, message) {
    const before = text.slice(0, at)
    const line = before.split('\n').length
    const column = at - before.lastIndexOf('\n')
    super(`${message} at line ${line}, column ${column}`)
    Object.assign(this, {at, line, column})
  }
}

/** Pieces `[class, text]` of a JSON text, indented; throws `JsonError`. */
export function pretty(text) {
  const out = []
  let at = 0
  const fail = message => { throw new JsonError(text, at, message) }
  const seen = () => (at >= text.length ? 'the end' : JSON.stringify(text[at]))
  const skip = () => { while (at < text.length && ' \t\n\r'.includes(text[at])) at += 1 }
  const put = (name, piece) => out.push([name, piece])
  const indent = depth => `\n${'  '.repeat(depth)}`
  const string = name => {
    let end = at + 1
    while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1
    const piece = text.slice(at, end + 1)
    if (isString(piece)) {
      put(name, piece)
      at = end + 1
    } else fail('A string is broken or not closed')
  }
  const list = (close, depth, item) => {
    const open = text[at]
    at += 1
    skip()
    if (text[at] === close) {
      at += 1
      return put('', open + close)
    }
    put('', open + indent(depth + 1))
    for (;;) {
      item(depth + 1)
      skip()
      if (text[at] === ',') {
        put('', `,${indent(depth + 1)}`)
        at += 1
        skip()
      } else if (text[at] === close) {
        put('', indent(depth) + close)
        at += 1
        return
      } else fail(`Expected "," or "${close}", found ${seen()}`)
    }
  }
  const pair = depth => {
    if (text[at] !== '"') fail(`Expected a key in quotes, found ${seen()}`)
    string('key')
    skip()
    if (text[at] !== ':') fail(`Expected ":", found ${seen()}`)
    at += 1
    put('', ': ')
    value(depth)
  }
  const value = depth => {
    if (depth > DEPTH_MAX) fail('Nested too deeply to be laid out')
    skip()
    const first = text[at]
    if (first === '{') return list('}', depth, pair)
    if (first === '[') return list(']', depth, value)
    if (first === '"') return string('string')
    const rest = text.slice(at, at + 400)
    const found = rest.match(WORDS) ?? rest.match(NUMBER)
    if (!found) fail(`Expected a value, found ${seen()}`)
    put(WORDS.test(found[0]) ? 'word' : 'number', found[0])
    at += found[0].length
  }
  value(0)
  skip()
  if (at < text.length) fail(`Expected the end, found ${seen()}`)
  return out
}

/** The text of a member of the outermost object, as it is written; null when there is none. */
export function member(text, name) {
  const parts = pretty(text)
  let depth = 0
  let from = -1
  for (let at = 0; at < parts.length; at += 1) {
    const [kind, piece] = parts[at]
    if (kind === '' && /^[{[]\n/.test(piece)) depth += 1
    if (kind === '' && /[}\]]$/.test(piece) && piece.length > 1 && piece[0] === '\n') depth -= 1
    if (depth === 1 && kind === 'key' && from < 0 && piece === JSON.stringify(name)) from = at + 2
    else if (from >= 0 && at >= from && (depth === 0 || (depth === 1 && piece.startsWith(',')))) {
      return parts.slice(from, at).map(it => it[1]).join('')
    }
  }
  return null
}

function isString(piece) {
  try {
    return typeof JSON.parse(piece) === 'string'
  } catch { return false }
}
