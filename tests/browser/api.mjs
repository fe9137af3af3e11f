// Calls of the API beside the browser, and receivers of what the server sends.

import {createServer} from 'node:http'

const given = JSON.parse(process.argv[2])

async function call(method, path, body, headers) {
  const response = await fetch(new URL(path, given.url), {
    method, headers: {authorization: `Bearer ${given.key}`, 'content-type': 'application/json', ...headers},
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return text === '' ? null : JSON.parse(text)
}

export const api = {
  url: given.url,
  get: path => call('GET', path),
  post: (path, body, headers) => call('POST', path, body, headers),
  patch: (path, body) => call('PATCH', path, body),
}

/** Sends a request to a source, as a stranger would. Gives its id. */
export async function send(source, {path = '', method = 'POST', headers = {}, body = ''} = {}) {
  const response = await fetch(source.url + path, {method, headers, body: method === 'GET' ? undefined : body})
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${source.url}${path}: ${response.status} ${text}`)
  return JSON.parse(text).id
}

/**
 * A server that keeps what it was sent in `seen` (`{method, path, headers, body}`) and answers with `status` and
 * `body`, which may be changed at any time.
 */
export async function receiver(status = 200) {
  const it = {status, body: 'noted', seen: [], url: null}
  const server = createServer((request, response) => {
    const parts = []
    request.on('data', part => parts.push(part))
    request.on('end', () => {
      it.seen.push({method: request.method, path: request.url, headers: request.headers, body: Buffer.concat(parts).toString()})
      response.writeHead(it.status, {'content-type': 'text/plain'}).end(it.body)
    })
  })
  await new Promise(listens => server.listen(0, '127.0.0.1', listens))
  it.url = `http://127.0.0.1:${server.address().port}`
  return it
}
